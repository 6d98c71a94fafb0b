package io.delta.kernel.defaults.internal.parquet;

import io.delta.kernel.defaults.engine.fileio.SeekableInputStream;
import io.delta.kernel.defaults.engine.hadoopio.HadoopInputFile;
import io.delta.kernel.expressions.Column;
import io.delta.kernel.expressions.Literal;
import io.delta.kernel.statistics.DataFileStatistics;
import io.delta.kernel.types.StructType;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.FileMetaData;

/**
 * Performs steps of copies of many local files on its own threads, so that Python needs no call for each of them (ADR 0050).
 *
 * A task and a result are lines of fields with tabs between them; the first two fields are the step and the number of the file.
 * Nothing is decided here, and nothing is repeated: a step that fails has its error as its result. A subclass has the steps of a store.
 */
public class BackfillFileCopies implements Runnable {
    private static final int FIRST_TAIL_BYTES = 4096;
    private static final int MAGIC_BYTES = 8;
    private static final int FOOTERS_MAX = 64;
    private static final int BUFFER_BYTES = 1 << 18;
    private static final long WAIT_MS = 100L;
    private static final String DESCRIBE = "describe\t";

    private final Configuration configuration;
    private final ParquetReadOptions options;
    private final LinkedBlockingDeque tasks = new LinkedBlockingDeque();
    private final LinkedBlockingQueue results = new LinkedBlockingQueue();
    private final ConcurrentHashMap tails = new ConcurrentHashMap();
    private final ThreadLocal buffers = new ThreadLocal();
    private final AtomicInteger tailBytes = new AtomicInteger(FIRST_TAIL_BYTES);
    private final Map footerNumbers = new HashMap();
    private final List footers = new ArrayList();
    private final List measures = new ArrayList();
    /** Guards the three fields below; the compiler of Spark locks the wrong object for a private method that is synchronized. */
    private final Object lock = new Object();
    private int width = 0;
    private int threads = 0;
    private boolean closed = false;

    /** `configuration`: Hadoop's; `options`: Parquet's, null if no footer is read. */
    public BackfillFileCopies(Configuration configuration, ParquetReadOptions options) {
        this.configuration = configuration;
        this.options = options;
    }

    /** Sets the number of objects that are worked on at once. */
    public void widen(int width) {
        synchronized (this.lock) {
            this.width = width;
            while (this.threads < width && !this.closed) {
                Thread thread = new Thread(this, "backfill file copy");
                thread.setDaemon(true);
                thread.start();
                this.threads++; // only one that runs: `close` waits for all
            }
        }
    }

    /** Adds tasks, one a line; those that finish an object come before those that begin one. */
    public void submit(String lines) {
        String[] split = lines.split("\n");
        for (int at = 0; at < split.length; at++) {
            if (!split[at].startsWith(DESCRIBE)) {
                this.tasks.addFirst(split[at]);
            } else {
                this.tasks.addLast(split[at]);
            }
        }
    }

    /** Waits for a result, and returns all that exist: lines in Base64; an empty string after `waitMs`. */
    public String poll(long waitMs) throws InterruptedException {
        List lines = new ArrayList();
        Object first = this.results.poll(waitMs, TimeUnit.MILLISECONDS);
        if (first != null) {
            lines.add(first);
            this.results.drainTo(lines);
        }
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < lines.size(); at++) {
            text.append(at == 0 ? "" : "\n").append((String) lines.get(at));
        }
        return Base64.getEncoder().encodeToString(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** Ends the threads; returns when no request is under way any more. */
    public void close() throws InterruptedException {
        synchronized (this.lock) {
            this.closed = true;
            this.tasks.clear();
            while (this.threads > 0) {
                this.lock.wait(WAIT_MS);
            }
        }
    }

    /** Returns the metadata of footers by its number; files of one schema and one writer share it. */
    public FileMetaData metadata(int number) {
        synchronized (this.footers) {
            return (FileMetaData) this.footers.get(number);
        }
    }

    /**
     * Describes statistics, and returns the number by which a task asks for them.
     *
     * `changed`: columns without a smallest value, columns without a largest value, and columns with a first valid value in `firsts`.
     */
    public int measure(List schemas, List columns, List changed, List firsts) {
        synchronized (this.measures) {
            this.measures.add(new Object[] {schemas, columns, changed, firsts});
            return this.measures.size() - 1;
        }
    }

    public void run() {
        while (this.goesOn()) {
            try {
                String task = (String) this.tasks.poll(WAIT_MS, TimeUnit.MILLISECONDS);
                if (task != null) {
                    this.results.add(this.result(task.split("\t", -1)));
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private boolean goesOn() {
        synchronized (this.lock) {
            if (this.closed || this.threads > this.width || Thread.currentThread().isInterrupted()) {
                this.threads--;
                this.lock.notifyAll();
                return false;
            }
            return true;
        }
    }

    private String result(String[] task) {
        String name = task[0] + "\t" + task[1];
        try {
            return name + "\tdone\t" + this.done(task);
        } catch (Throwable failure) {
            return name + "\tfailed\t" + this.failed(failure);
        }
    }

    /** Performs a step, and returns its fields. */
    protected String done(String[] task) throws Exception {
        return task[0].equals("describe") ? this.described(task) : this.digested(task);
    }

    /** Returns status, code and message of a failure. */
    protected String failed(Throwable failure) {
        return "0\t\t" + plain(failure.toString());
    }

    /** Reads the footer of an object, and with it the object's ETag and size. Task: key, expected size. */
    protected String described(String[] task) throws IOException {
        long size = Long.parseLong(task[3]);
        End end = this.footer(task[2], size);
        String described = end.size + "\t" + plain(end.etag) + "\t\t";
        if (end.size != size) {
            return described;
        }
        Tail tail = new Tail(task[2], size, end.bytes, this.configuration);
        ParquetFileReader reader = ParquetFileReader.open(ParquetIOUtils.createParquetInputFile(tail), this.options);
        try {
            FileMetaData metadata = reader.getFooter().getFileMetaData();
            int number = this.number(metadata);
            this.tails.put(task[1], tail);
            return described + "\t" + reader.getRecordCount() + "\t" + number + "\t" + metadata.getEncryptionType();
        } finally {
            reader.close();
        }
    }

    private int number(FileMetaData metadata) {
        List same = new ArrayList();
        same.add(metadata.getSchema());
        same.add(metadata.getKeyValueMetaData());
        same.add(metadata.getCreatedBy());
        same.add(metadata.getEncryptionType());
        synchronized (this.footers) {
            Integer known = (Integer) this.footerNumbers.get(same);
            if (known != null) {
                return known.intValue();
            }
            if (this.footerNumbers.size() >= FOOTERS_MAX) {
                this.footerNumbers.clear();
            }
            this.footers.add(metadata);
            this.footerNumbers.put(same, Integer.valueOf(this.footers.size() - 1));
            return this.footers.size() - 1;
        }
    }

    /** Reads as many bytes from the end of an object as its footer needs: once, if it is not longer than those before. */
    private End footer(String key, long size) throws IOException {
        End end = this.end(key, null, size, this.tailBytes.get());
        long footer = MAGIC_BYTES;
        int at = end.bytes.length - MAGIC_BYTES;
        if (at >= 0) {
            footer += (end.bytes[at] & 255L) | (end.bytes[at + 1] & 255L) << 8 | (end.bytes[at + 2] & 255L) << 16
                | (end.bytes[at + 3] & 255L) << 24;
        }
        if (end.size == size && footer > end.bytes.length && footer <= size && footer < Integer.MAX_VALUE / 2) {
            end = this.end(key, end.etag, size, (int) footer);
            this.tailBytes.set((int) Math.max(this.tailBytes.get(), footer + footer / 8));
        }
        return end;
    }

    /** Reads the last bytes of a file of a size; with an ETag only of the object that has it. */
    protected End end(String key, String etag, long size, int bytes) throws IOException {
        RandomAccessFile file = new RandomAccessFile(key, "r");
        try {
            byte[] end = new byte[(int) Math.min(bytes, file.length())];
            file.seek(file.length() - end.length);
            file.readFully(end);
            return new End(end, "", file.length());
        } finally {
            file.close();
        }
    }

    /** Returns size and checksum of a local file, and measures the footer that was read before. Task: path, measure, deleted rows. */
    private String digested(String[] task) throws IOException {
        ByteBuffer buffer = (ByteBuffer) this.buffers.get();
        if (buffer == null) {
            buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
            this.buffers.set(buffer);
        }
        CRC32C sum = new CRC32C();
        long size = 0L;
        FileInputStream file = new FileInputStream(task[2]);
        try {
            FileChannel channel = file.getChannel();
            buffer.clear();
            for (int count = channel.read(buffer); count >= 0; count = channel.read(buffer)) {
                this.checkOpen();
                size += count;
                buffer.flip();
                sum.update(buffer);
                buffer.clear();
            }
        } finally {
            file.close();
        }
        byte[] checksum = ByteBuffer.allocate(Integer.BYTES).putInt((int) sum.getValue()).array();
        String made = size + "\t\t" + Base64.getEncoder().encodeToString(checksum) + "\tFULL_OBJECT";
        return made + "\t0\t" + this.measured(task[1], task[3], task[4]);
    }

    private void checkOpen() throws InterruptedIOException {
        synchronized (this.lock) {
            if (this.closed) {
                throw new InterruptedIOException("the batch has ended");
            }
        }
    }

    /** Returns the statistics in the footer of a file that was described; an empty string if they must be measured separately. */
    protected String measured(String number, String measure, String hidden) {
        Tail tail = (Tail) this.tails.remove(number);
        Object[] wanted;
        synchronized (this.measures) {
            wanted = (Object[]) this.measures.get(Integer.parseInt(measure));
        }
        try {
            List schemas = (List) wanted[0];
            List changed = (List) wanted[2];
            StructType read = (StructType) schemas.get(0);
            DataFileStatistics found = ParquetStatsReader.readDataFileStatistics(tail, read, (List) wanted[1]);
            if (isBelow(found.getMinValues(), (List) changed.get(2), (List) wanted[3])) {
                return "";
            }
            Map smallest = without(found.getMinValues(), (List) changed.get(0));
            Map largest = without(found.getMaxValues(), (List) changed.get(1));
            DataFileStatistics kept =
                new DataFileStatistics(found.getNumRecords(), smallest, largest, found.getNullCount(), found.getTightBounds());
            if (!hidden.equals("0")) {
                kept = kept.withoutTightBounds();
            }
            return kept.serializeAsJson((StructType) schemas.get(1));
        } catch (Throwable failure) {
            return ""; // measured again in Python, which explains the error
        }
    }

    private static boolean isBelow(Map bounds, List columns, List firsts) {
        for (int at = 0; at < columns.size(); at++) {
            Literal bound = (Literal) bounds.get((Column) columns.get(at));
            Number value = bound == null ? null : (Number) bound.getValue();
            if (value != null && value.longValue() < ((Number) firsts.get(at)).longValue()) {
                return true;
            }
        }
        return false;
    }

    private static Map without(Map bounds, List columns) {
        Map kept = new HashMap(bounds);
        for (int at = 0; at < columns.size(); at++) {
            kept.remove(columns.get(at));
        }
        return kept;
    }

    protected static String plain(String text) {
        return text == null ? "" : text.replace('\t', ' ').replace('\n', ' ').replace('\r', ' ');
    }

    /** The last bytes of an object, its ETag and its size. */
    public static class End {
        private final byte[] bytes;
        private final String etag;
        private final long size;

        public End(byte[] bytes, String etag, long size) {
            this.bytes = bytes;
            this.etag = etag;
            this.size = size;
        }
    }

    /** The end of a Parquet file, with its footer. */
    public static class Tail extends HadoopInputFile {
        private final String key;
        private final long size;
        private final byte[] end;
        private final Configuration configuration;

        public Tail(String key, long size, byte[] end, Configuration configuration) {
            super(null, null, size);
            this.key = key;
            this.size = size;
            this.end = end;
            this.configuration = configuration;
        }

        public String path() {
            return this.key;
        }

        /** Without it, Kernel parses Hadoop's configuration again for each file, which takes most of its time. */
        public Configuration configuration() {
            return this.configuration;
        }

        public SeekableInputStream newStream() {
            return new TailStream(this.size, this.end);
        }
    }

    /** Reads the end of a file; what lies before it is an error. */
    public static class TailStream extends SeekableInputStream {
        private final long size;
        private final byte[] end;
        private long at = 0;

        public TailStream(long size, byte[] end) {
            this.size = size;
            this.end = end;
        }

        public long getPos() {
            return this.at;
        }

        public void seek(long at) {
            this.at = at;
        }

        public int read() throws IOException {
            if (this.at >= this.size) {
                return -1;
            }
            return this.end[this.index(this.at++)] & 255;
        }

        public void readFully(byte[] into, int start, int length) throws IOException {
            if (this.at + length > this.size) {
                throw new EOFException();
            }
            if (length > 0) {
                System.arraycopy(this.end, this.index(this.at), into, start, length);
                this.at += length;
            }
        }

        private int index(long at) throws IOException {
            long index = at - (this.size - this.end.length);
            if (index < 0) {
                throw new IOException("these bytes of the file were not read");
            }
            return (int) index;
        }
    }
}
