import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.apache.xbean.asm9.AnnotationVisitor;
import org.apache.xbean.asm9.Attribute;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.FieldVisitor;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Writes the jars of a folder again, during the image build, without the parts of classes that only debuggers and compilers read.
 *
 * <pre>java -cp jars/xbean-asm9-shaded-4.30.jar SlimJars.java jars</pre>
 *
 * Removed are names of local variables, annotations that reflection cannot return, and the notes of Scala's compiler about inlining. Kept
 * are files and lines, for tracebacks, and the names in constructors and {@code apply}: Jackson and json4s read those of their parameters.
 * Folders stay too: Jersey finds the resources of Spark's pages by them. A class with an unknown attribute fails the build. The same jars
 * give the same output.
 */
public final class SlimJars {
    private static final Set<String> WITH_PARAMETER_NAMES = Set.of("<init>", "apply");
    /** Marks of a Scala class, without a reference to constants, which ASM numbers again. */
    private static final Set<String> MARKS = Set.of("Scala", "ScalaSig");
    private static final String INLINING = "ScalaInlineInfo";
    /** A signature does not fit a changed class. The checksums of the jars and of pyspark are checked before. */
    private static final Set<String> SIGNATURES = Set.of(".SF", ".RSA", ".DSA", ".EC");

    private SlimJars() {}

    public static void main(String[] arguments) throws IOException {
        List<Path> jars = new ArrayList<>();
        try (var files = Files.newDirectoryStream(Path.of(arguments[0]), "*.jar")) {
            files.forEach(jars::add);
        }
        jars.parallelStream().forEach(SlimJars::rewrite);
    }

    private static void rewrite(Path jar) {
        Path written = jar.resolveSibling(jar.getFileName() + ".new");
        try (ZipFile old = new ZipFile(jar.toFile());
                ZipOutputStream slim = new ZipOutputStream(Files.newOutputStream(written))) {
            slim.setLevel(Deflater.BEST_COMPRESSION);
            for (ZipEntry entry : Collections.list(old.entries())) {
                String name = entry.getName();
                if (isSignature(name)) continue;
                byte[] content = old.getInputStream(entry).readAllBytes();
                if (name.endsWith(".class")) content = slim(content, jar + " " + name);
                slim.putNextEntry(described(name, entry, content));
                slim.write(content);
                slim.closeEntry();
            }
            slim.close();
            Files.move(written, jar, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException error) {
            throw new UncheckedIOException(jar.toString(), error);
        }
    }

    private static boolean isSignature(String name) {
        return name.startsWith("META-INF/") && SIGNATURES.stream().anyMatch(name::endsWith);
    }

    /** Return an entry with sizes and checksum: without them, the file has them a second time, after the content. */
    private static ZipEntry described(String name, ZipEntry old, byte[] content) {
        ZipEntry entry = new ZipEntry(name);
        entry.setTimeLocal(old.getTimeLocal());
        CRC32 checksum = new CRC32();
        checksum.update(content);
        entry.setCrc(checksum.getValue());
        entry.setSize(content.length);
        if (entry.isDirectory()) {
            entry.setMethod(ZipEntry.STORED);
            return entry;
        }
        Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION, true);
        deflater.setInput(content);
        deflater.finish();
        byte[] buffer = new byte[1 << 16];
        while (!deflater.finished()) deflater.deflate(buffer);
        entry.setCompressedSize(deflater.getBytesWritten());
        deflater.end();
        return entry;
    }

    private static byte[] slim(byte[] content, String name) {
        ClassWriter written = new ClassWriter(0);
        new ClassReader(content).accept(new SlimClass(written, name), 0);
        return written.toByteArray();
    }

    private static boolean stays(Attribute attribute, String place) {
        if (attribute.type.equals(INLINING)) return false;
        if (MARKS.contains(attribute.type)) return true;
        throw new IllegalStateException(place + " has the unknown attribute " + attribute.type);
    }

    private static final class SlimClass extends ClassVisitor {
        private final String name;

        SlimClass(ClassVisitor next, String name) {
            super(Opcodes.ASM9, next);
            this.name = name;
        }

        @Override
        public AnnotationVisitor visitAnnotation(String descriptor, boolean visible) {
            return visible ? super.visitAnnotation(descriptor, true) : null;
        }

        @Override
        public void visitAttribute(Attribute attribute) {
            if (stays(attribute, name)) super.visitAttribute(attribute);
        }

        @Override
        public FieldVisitor visitField(int access, String field, String descriptor, String signature, Object value) {
            return new FieldVisitor(Opcodes.ASM9, super.visitField(access, field, descriptor, signature, value)) {
                @Override
                public AnnotationVisitor visitAnnotation(String descriptor, boolean visible) {
                    return visible ? super.visitAnnotation(descriptor, true) : null;
                }

                @Override
                public void visitAttribute(Attribute attribute) {
                    if (stays(attribute, name)) super.visitAttribute(attribute);
                }
            };
        }

        @Override
        public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] exceptions) {
            boolean named = WITH_PARAMETER_NAMES.contains(method);
            return new MethodVisitor(Opcodes.ASM9, super.visitMethod(access, method, descriptor, signature, exceptions)) {
                @Override
                public void visitLocalVariable(String variable, String type, String generic, Label start, Label end, int index) {
                    if (named) super.visitLocalVariable(variable, type, generic, start, end, index);
                }

                @Override
                public AnnotationVisitor visitAnnotation(String descriptor, boolean visible) {
                    return visible ? super.visitAnnotation(descriptor, true) : null;
                }

                @Override
                public void visitAttribute(Attribute attribute) {
                    if (stays(attribute, name)) super.visitAttribute(attribute);
                }
            };
        }
    }
}
