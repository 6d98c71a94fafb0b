package io.delta.storage;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;

/** Files of a table's log on S3: one that may not replace another is made by a PUT with If-None-Match (ADR 0007). */
public class BackfillS3LogStore extends HadoopFileSystemLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";

    public BackfillS3LogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        FSDataOutputStreamBuilder builder = path.getFileSystem(conf).createFile(path);
        builder.overwrite(overwrite.booleanValue());
        if (!overwrite.booleanValue()) {
            builder.must(CONDITION, true);
        }
        try {
            FSDataOutputStream stream = (FSDataOutputStream) builder.build();
            while (actions.hasNext()) {
                stream.write((((String) actions.next()) + "\n").getBytes(StandardCharsets.UTF_8));
            }
            stream.close();
        } catch (FileAlreadyExistsException taken) {
            throw new java.nio.file.FileAlreadyExistsException(path.toString());
        } catch (IOException failure) {
            // Hadoop's class for it is in the jar of S3, which need not be there to compile this.
            if (failure.getClass().getName().endsWith(".RemoteFileChangedException")) {
                throw new java.nio.file.FileAlreadyExistsException(path.toString());
            }
            // Kernel repeats a commit 200 times after any IOException, even if the store denies it; Hadoop has repeated already
            // what may pass.
            throw new UncheckedIOException(failure);
        }
    }

    public Boolean isPartialWriteVisible(Path path, Configuration conf) throws IOException {
        return Boolean.FALSE;
    }
}
