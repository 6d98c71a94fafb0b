package io.delta.storage;

import java.io.BufferedWriter;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Writes the files of a table's log on a local disk; a file that must not replace another one gets its name by a hard link (ADR 0038).
 * Lists them without reading the attributes of older files: with Delta's store, each commit to a log of 100,000 commits took seconds.
 */
public class BackfillLocalLogStore extends LocalLogStore {
    public BackfillLocalLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        FileSystem system = path.getFileSystem(conf);
        if (overwrite.booleanValue() || !(system instanceof LocalFileSystem)) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        java.nio.file.Path file = ((LocalFileSystem) system).pathToFile(path).toPath();
        java.nio.file.Path folder = file.getParent();
        String name = file.getFileName().toString();
        if (Files.exists(file, new java.nio.file.LinkOption[0])) {
            throw new FileAlreadyExistsException(file.toString());
        }
        Files.createDirectories(folder, new java.nio.file.attribute.FileAttribute[0]);
        java.nio.file.Path written = folder.resolve("." + name + "." + UUID.randomUUID() + ".tmp");
        try {
            BufferedWriter writer = Files.newBufferedWriter(written, StandardCharsets.UTF_8, new java.nio.file.OpenOption[0]);
            try {
                while (actions.hasNext()) {
                    writer.write((String) actions.next());
                    writer.write('\n');
                }
            } finally {
                writer.close();
            }
            permit(written, conf);
            // Hadoop's checksum of an earlier file of this name would not match.
            Files.deleteIfExists(folder.resolve("." + name + ".crc"));
            link(file, written);
        } finally {
            Files.deleteIfExists(written);
        }
    }

    public Iterator listFrom(Path path, Configuration conf) throws IOException {
        FileSystem system = path.getFileSystem(conf);
        if (!(system instanceof LocalFileSystem)) {
            return super.listFrom(path, conf);
        }
        String[] names = ((LocalFileSystem) system).pathToFile(path.getParent()).list();
        if (names == null) {
            throw new FileNotFoundException("No such file or directory: " + path.getParent());
        }
        Arrays.sort(names);
        int first = Arrays.binarySearch(names, path.getName());
        ArrayList listed = new ArrayList();
        for (int at = first < 0 ? -first - 1 : first; at < names.length; at++) {
            try {
                listed.add(system.getFileStatus(new Path(path.getParent(), names[at])));
            } catch (FileNotFoundException deleted) {
                // Another writer deleted the file after its name was listed.
            }
        }
        return listed.iterator();
    }

    private static void permit(java.nio.file.Path written, Configuration conf) throws IOException {
        FsPermission permission = FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf));
        try {
            Files.setPosixFilePermissions(written, PosixFilePermissions.fromString(permission.toString()));
        } catch (UnsupportedOperationException notPosix) {
            // The file keeps the permissions of its folder.
        }
    }

    private static void link(java.nio.file.Path file, java.nio.file.Path written) throws IOException {
        try {
            Files.createLink(file, written);
            return;
        } catch (FileAlreadyExistsException taken) {
            throw taken;
        } catch (UnsupportedOperationException noLinks) {
            // Renamed below.
        } catch (FileSystemException noLinks) {
            // Renamed below; another failure happens again there.
        }
        // Without hard links, as on FAT and some network disks: two writers may still collide between the check and the move.
        Files.move(written, file, new java.nio.file.CopyOption[0]);
    }
}
