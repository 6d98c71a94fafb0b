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

/** Writes the files of a table's log on S3; a file that must not replace another one is written by a PUT with If-None-Match (ADR 0007). */
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
            // By name, because the exception's class is in Hadoop's S3 jar, which is not required to compile this class.
            if (failure.getClass().getName().endsWith(".RemoteFileChangedException")) {
                throw new java.nio.file.FileAlreadyExistsException(path.toString());
            }
            // Not an IOException: Kernel retries a commit 200 times after each of these, even if the store denies access. Hadoop has
            // already retried transient errors.
            throw new UncheckedIOException(failure);
        }
    }

    public Boolean isPartialWriteVisible(Path path, Configuration conf) throws IOException {
        return Boolean.FALSE;
    }
}
