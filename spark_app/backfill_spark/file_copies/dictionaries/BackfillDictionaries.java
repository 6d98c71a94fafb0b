package org.apache.parquet.hadoop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.bytes.HeapByteBufferAllocator;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.EncodingStats;
import org.apache.parquet.column.page.DataPage;
import org.apache.parquet.column.page.DataPageV1;
import org.apache.parquet.column.page.DataPageV2;
import org.apache.parquet.column.page.DictionaryPage;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.column.page.PageReader;
import org.apache.parquet.column.page.PageWriter;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.column.values.rle.RunLengthBitPackingHybridDecoder;
import org.apache.parquet.column.values.rle.RunLengthBitPackingHybridEncoder;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.InputFile;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

/**
 * The dictionaries of one column of a file, and columns that were computed from them (ADR 0068).
 *
 * `Values` has the distinct values of some files. It writes them as the rows of a small file, with a null at the end if the column has
 * nulls. Spark computes columns for these rows. `writeColumns` writes the same columns for all rows of a row group: the computed values
 * are the new dictionary, and the numbers of the values in the data pages stay as they are.
 */
public class BackfillDictionaries {
    private static final int TRUNCATED_BOUND = 64;
    private static final int PAGE_BYTES = 1048576;
    private static final long BOUNDS_BYTES_MAX = 4096L;

    private final InputFile file;
    private final ParquetReadOptions options;
    private final MessageType schema;
    private final Map metadata;
    private final ColumnDescriptor column;
    private final List dictionaries = new ArrayList();
    private final List mayBeNull = new ArrayList();
    private final List places = new ArrayList();
    private Values values;

    private BackfillDictionaries(InputFile file, ParquetReadOptions options, MessageType schema, Map metadata) {
        this.file = file;
        this.options = options;
        this.schema = schema;
        this.metadata = metadata;
        this.column = (ColumnDescriptor) schema.getColumns().get(0);
    }

    /** Returns the dictionaries of a top-level column; null unless each row group stores all its values by a dictionary. */
    public static BackfillDictionaries open(InputFile file, ParquetReadOptions options, String name) throws IOException {
        ParquetFileReader reader = ParquetFileReader.open(file, options);
        try {
            MessageType whole = reader.getFileMetaData().getSchema();
            Type field = (Type) whole.getFields().get(whole.getFieldIndex(name));
            if (!field.isPrimitive() || field.isRepetition(Type.Repetition.REPEATED)) {
                return null;
            }
            MessageType schema = new MessageType(whole.getName(), Collections.singletonList(field));
            BackfillDictionaries opened = new BackfillDictionaries(
                file, options, schema, reader.getFileMetaData().getKeyValueMetaData());
            List blocks = reader.getRowGroups();
            for (int at = 0; at < blocks.size(); at++) {
                if (!opened.add(reader, (BlockMetaData) blocks.get(at), name)) {
                    return null;
                }
            }
            return opened;
        } finally {
            reader.close();
        }
    }

    private boolean add(ParquetFileReader reader, BlockMetaData block, String name) throws IOException {
        List chunks = block.getColumns();
        for (int at = 0; at < chunks.size(); at++) {
            ColumnChunkMetaData chunk = (ColumnChunkMetaData) chunks.get(at);
            if (chunk.getPath().size() == 1 && name.equals(chunk.getPath().toArray()[0])) {
                EncodingStats pages = chunk.getEncodingStats();
                if (pages == null || !pages.hasDictionaryEncodedPages() || pages.hasNonDictionaryEncodedPages()) {
                    return false;
                }
                DictionaryPage page = reader.readDictionary(chunk);
                if (page == null || page.getDictionarySize() < 1) {
                    return false;
                }
                this.dictionaries.add(new DictionaryPage(
                    BytesInput.from(page.getBytes().toByteArray()), page.getDictionarySize(), page.getEncoding()));
                Statistics known = chunk.getStatistics();
                boolean never = this.column.getMaxDefinitionLevel() == 0
                    || (known != null && known.isNumNullsSet() && known.getNumNulls() == 0);
                this.mayBeNull.add(Boolean.valueOf(!never));
                return true;
            }
        }
        return false;
    }

    /** Number of values in the dictionary of a row group. */
    public int size(int group) {
        return ((DictionaryPage) this.dictionaries.get(group)).getDictionarySize();
    }

    private boolean mayBeNull(int group) {
        return ((Boolean) this.mayBeNull.get(group)).booleanValue();
    }

    /** Returns the place of each value of a row group among the values of some files. */
    private int[] places(int group) {
        return (int[]) this.places.get(group);
    }

    /** Returns an empty list of values. */
    public static Values values() {
        return new Values();
    }

    /**
     * Writes the columns that were computed for the values of a row group for all rows of the group.
     *
     * Returns false if that is not possible; then an incomplete file may remain. The reasons: the row group has a value without a row
     * or a row without a value, a value became null or a null became a value, or a computed column cannot have a dictionary, bounds,
     * or only one level.
     */
    public boolean writeColumns(int group, OutputFile target, Map metadata) throws IOException {
        List columns = this.values.computed;
        List pages = columns == null ? null : this.pages(group);
        if (pages == null) {
            return false;
        }
        List fields = new ArrayList();
        for (int at = 0; at < columns.size(); at++) {
            fields.add(((Computed) columns.get(at)).type);
        }
        MessageType made = new MessageType(this.schema.getName(), fields);
        long rows = 0;
        for (int at = 0; at < pages.size(); at++) {
            rows += (long) ((Page) pages.get(at)).count;
        }
        ParquetFileWriter writer = writer(target, made);
        try {
            writer.start();
            writer.startBlock(rows);
            for (int at = 0; at < columns.size(); at++) {
                ColumnDescriptor column = (ColumnDescriptor) made.getColumns().get(at);
                if (!this.append(writer, column, (Computed) columns.get(at), group, pages)) {
                    return false;
                }
            }
            writer.endBlock();
            writer.end(metadata);
            return true;
        } finally {
            writer.close();
        }
    }

    private boolean append(ParquetFileWriter writer, ColumnDescriptor made, Computed computed, int group, List pages) throws IOException {
        int[] places = this.places(group);
        Statistics bounds = computed.bounds(places);
        if (bounds == null || (this.mayBeNull(group) && !computed.keepsNull)) {
            return false;
        }
        Map known = new HashMap();
        ByteArrayOutputStream dictionary = new ByteArrayOutputStream();
        int[] numbers = new int[places.length];
        for (int at = 0; at < places.length; at++) {
            byte[] value = computed.values[places[at]];
            numbers[at] = numberOf(value, known);
            if (numbers[at] < 0) {
                numbers[at] = known.size() - 1;
                dictionary.write(value);
            }
        }
        int size = known.size();
        MessageType alone = new MessageType("column", Collections.singletonList(made.getPrimitiveType()));
        ColumnChunkPageWriteStore store = new ColumnChunkPageWriteStore(
            this.options.getCodecFactory().getCompressor(computed.codec), alone, new HeapByteBufferAllocator(), TRUNCATED_BOUND, true);
        PageWriter out = store.getPageWriter(made);
        for (int at = 0; at < pages.size(); at++) {
            Page page = (Page) pages.get(at);
            Statistics ofPage = page.nulls == page.count ? Statistics.createStats(made.getPrimitiveType()) : bounds.copy();
            ofPage.setNumNulls(page.nulls);
            ByteArrayOutputStream body = new ByteArrayOutputStream(page.values.length + page.levels.length + 4);
            withLength(body, page.levels);
            body.write(size == numbers.length ? page.values : page.renumbered(numbers, size));
            out.writePage(BytesInput.from(body), page.count, page.count, ofPage,
                Encoding.RLE, Encoding.RLE, Encoding.PLAIN_DICTIONARY);
        }
        out.writeDictionaryPage(new DictionaryPage(BytesInput.from(dictionary), size, Encoding.PLAIN_DICTIONARY));
        store.flushToFileWriter(writer);
        return true;
    }

    /** Returns the number of a known value; adds another one with the next number, and returns -1. */
    private static int numberOf(byte[] value, Map known) {
        ByteBuffer key = ByteBuffer.wrap(value);
        Object number = known.get(key);
        if (number != null) {
            return ((Integer) number).intValue();
        }
        known.put(key, Integer.valueOf(known.size()));
        return -1;
    }

    /** The data pages of a row group; null if a page has another layout, or if a value of the dictionary has no row. */
    private List pages(int group) throws IOException {
        ParquetFileReader reader = ParquetFileReader.open(this.file, this.options);
        try {
            reader.setRequestedSchema(this.schema);
            PageReader source = reader.readRowGroup(group).getPageReader(this.column);
            List pages = new ArrayList();
            boolean[] used = new boolean[this.size(group)];
            boolean nullable = this.mayBeNull(group);
            DataPage page = source.readPage();
            while (page != null) {
                Page read = this.page(page, nullable);
                if (read == null) {
                    return null;
                }
                read.use(used);
                pages.add(read);
                page = source.readPage();
            }
            for (int at = 0; at < used.length; at++) {
                if (!used[at]) {
                    return null;
                }
            }
            return pages;
        } finally {
            reader.close();
        }
    }

    private Page page(DataPage page, boolean nullable) throws IOException {
        int count = page.getValueCount();
        boolean optional = this.column.getMaxDefinitionLevel() > 0;
        byte[] levels = null;
        byte[] values;
        if (page instanceof DataPageV2) {
            DataPageV2 second = (DataPageV2) page;
            if (!second.getDataEncoding().usesDictionary()) {
                return null;
            }
            levels = optional ? second.getDefinitionLevels().toByteArray() : null;
            values = second.getData().toByteArray();
        } else {
            DataPageV1 first = (DataPageV1) page;
            if (!first.getValueEncoding().usesDictionary() || (optional && first.getDlEncoding() != Encoding.RLE)) {
                return null;
            }
            values = first.getBytes().toByteArray();
            if (optional) {
                int length = ByteBuffer.wrap(values).order(ByteOrder.LITTLE_ENDIAN).getInt();
                levels = java.util.Arrays.copyOfRange(values, 4, 4 + length);
                values = java.util.Arrays.copyOfRange(values, 4 + length, values.length);
            }
        }
        if (levels == null) {
            RunLengthBitPackingHybridEncoder all = encoder(1);
            for (int at = 0; at < count; at++) {
                all.writeInt(1);
            }
            levels = all.toBytes().toByteArray();
        }
        int nulls = 0;
        if (nullable) {
            RunLengthBitPackingHybridDecoder read = decoder(1, levels, 0, levels.length);
            for (int at = 0; at < count; at++) {
                nulls += 1 - read.readInt();
            }
        }
        return new Page(count, nulls, levels, values);
    }

    /** Returns the values of a dictionary, each as PLAIN writes it. */
    private static List split(BackfillDictionaries file, int group) throws IOException {
        byte[] all = ((DictionaryPage) file.dictionaries.get(group)).getBytes().toByteArray();
        List values = new ArrayList();
        int first = 0;
        while (values.size() < file.size(group)) {
            int end = first + sizeOf(all, first, file.column.getPrimitiveType());
            values.add(java.util.Arrays.copyOfRange(all, first, end));
            first = end;
        }
        return values;
    }

    /** Returns the number of bytes that PLAIN takes for a value. */
    private static int sizeOf(byte[] values, int first, PrimitiveType type) {
        PrimitiveType.PrimitiveTypeName name = type.getPrimitiveTypeName();
        if (name == PrimitiveType.PrimitiveTypeName.BINARY) {
            return 4 + ByteBuffer.wrap(values, first, 4).order(ByteOrder.LITTLE_ENDIAN).getInt();
        }
        if (name == PrimitiveType.PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY) {
            return type.getTypeLength();
        }
        if (name == PrimitiveType.PrimitiveTypeName.INT96) {
            return 12;
        }
        return name == PrimitiveType.PrimitiveTypeName.INT64 || name == PrimitiveType.PrimitiveTypeName.DOUBLE ? 8 : 4;
    }

    private static ColumnChunkMetaData chunkOf(BlockMetaData block, ColumnDescriptor column) {
        List chunks = block.getColumns();
        for (int at = 0; at < chunks.size(); at++) {
            ColumnChunkMetaData chunk = (ColumnChunkMetaData) chunks.get(at);
            if (java.util.Arrays.equals(chunk.getPath().toArray(), column.getPath())) {
                return chunk;
            }
        }
        throw new IllegalStateException("no chunk of a column");
    }

    private static ParquetFileWriter writer(OutputFile target, MessageType schema) throws IOException {
        return new ParquetFileWriter(target, schema, ParquetFileWriter.Mode.CREATE, 134217728L, 8388608);
    }

    static RunLengthBitPackingHybridEncoder encoder(int bits) {
        return new RunLengthBitPackingHybridEncoder(bits, 64, PAGE_BYTES, new HeapByteBufferAllocator());
    }

    static RunLengthBitPackingHybridDecoder decoder(int bits, byte[] bytes, int first, int length) {
        return new RunLengthBitPackingHybridDecoder(bits, new ByteArrayInputStream(bytes, first, length));
    }

    private static void withLength(ByteArrayOutputStream page, byte[] levels) throws IOException {
        page.write(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(levels.length).array());
        page.write(levels);
    }

    /** One data page: its number of rows and of nulls, its levels, and the numbers of its values, both as they are stored. */
    private static class Page {
        private final int count;
        private final int nulls;
        private final byte[] levels;
        private final byte[] values;

        Page(int count, int nulls, byte[] levels, byte[] values) {
            this.count = count;
            this.nulls = nulls;
            this.levels = levels;
            this.values = values;
        }

        private RunLengthBitPackingHybridDecoder numbers() {
            return BackfillDictionaries.decoder(this.values[0], this.values, 1, this.values.length - 1);
        }

        void use(boolean[] used) throws IOException {
            if (this.nulls < this.count) {
                RunLengthBitPackingHybridDecoder read = this.numbers();
                for (int at = this.nulls; at < this.count; at++) {
                    used[read.readInt()] = true;
                }
            }
        }

        byte[] renumbered(int[] numbers, int size) throws IOException {
            if (this.nulls == this.count) {
                return this.values;
            }
            int bits = 32 - Integer.numberOfLeadingZeros(size - 1);
            RunLengthBitPackingHybridEncoder written = BackfillDictionaries.encoder(bits);
            RunLengthBitPackingHybridDecoder read = this.numbers();
            for (int at = this.nulls; at < this.count; at++) {
                written.writeInt(numbers[read.readInt()]);
            }
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            all.write(bits);
            all.write(written.toBytes().toByteArray());
            return all.toByteArray();
        }
    }

    /** The distinct values of the dictionaries of some files with one schema and one metadata. Thread-safe once `read` has ended. */
    public static class Values {
        private final Map numbers = new HashMap();
        private final List values = new ArrayList();
        private ParquetReadOptions options;
        private MessageType schema;
        private Map metadata;
        private boolean mayBeNull;
        private List computed;

        /** Number of values. */
        public int size() {
            return this.values.size();
        }

        /** Adds the values of a file; returns false if it differs from the others, or if there would be more than `most` values. */
        public boolean add(BackfillDictionaries file, int most) throws IOException {
            if (this.schema != null && !this.isLike(file)) {
                return false;
            }
            int more = 0;
            for (int group = 0; group < file.dictionaries.size(); group++) {
                more += file.size(group);
            }
            if (this.schema != null && this.values.size() + more > most) {
                return false;
            }
            for (int group = 0; group < file.dictionaries.size(); group++) {
                file.places.add(this.placesOf(file, group));
                this.mayBeNull = this.mayBeNull || file.mayBeNull(group);
            }
            file.values = this;
            this.options = file.options;
            this.schema = file.schema;
            this.metadata = file.metadata;
            return true;
        }

        /** Lets a file use the columns that were read; returns false if it differs, or has another value. */
        public boolean take(BackfillDictionaries file) throws IOException {
            if (this.computed == null || !this.isLike(file)) {
                return false;
            }
            for (int group = 0; group < file.dictionaries.size(); group++) {
                if ((file.mayBeNull(group) && !this.mayBeNull) || !this.has(file, group)) {
                    return false;
                }
            }
            for (int group = 0; group < file.dictionaries.size(); group++) {
                file.places.add(this.placesOf(file, group));
            }
            file.values = this;
            return true;
        }

        private boolean isLike(BackfillDictionaries file) {
            return this.schema.equals(file.schema) && this.metadata.equals(file.metadata);
        }

        private boolean has(BackfillDictionaries file, int group) throws IOException {
            List values = BackfillDictionaries.split(file, group);
            for (int at = 0; at < values.size(); at++) {
                if (!this.numbers.containsKey(ByteBuffer.wrap((byte[]) values.get(at)))) {
                    return false;
                }
            }
            return true;
        }

        private int[] placesOf(BackfillDictionaries file, int group) throws IOException {
            List values = BackfillDictionaries.split(file, group);
            int[] places = new int[values.size()];
            for (int at = 0; at < places.length; at++) {
                places[at] = BackfillDictionaries.numberOf((byte[]) values.get(at), this.numbers);
                if (places[at] < 0) {
                    places[at] = this.values.size();
                    this.values.add(values.get(at));
                }
            }
            return places;
        }

        /** Writes the values as the rows of a file, with the schema and the metadata of their files. */
        public void write(OutputFile target) throws IOException {
            ColumnDescriptor column = (ColumnDescriptor) this.schema.getColumns().get(0);
            int rows = this.values.size() + (this.mayBeNull ? 1 : 0);
            ByteArrayOutputStream page = new ByteArrayOutputStream();
            if (column.getMaxDefinitionLevel() > 0) {
                RunLengthBitPackingHybridEncoder levels = BackfillDictionaries.encoder(1);
                for (int row = 0; row < rows; row++) {
                    levels.writeInt(row < this.values.size() ? 1 : 0);
                }
                BackfillDictionaries.withLength(page, levels.toBytes().toByteArray());
            }
            for (int at = 0; at < this.values.size(); at++) {
                page.write((byte[]) this.values.get(at));
            }
            ParquetFileWriter writer = BackfillDictionaries.writer(target, this.schema);
            try {
                writer.start();
                writer.startBlock(rows);
                writer.startColumn(column, rows, CompressionCodecName.UNCOMPRESSED);
                writer.writeDataPage(rows, page.size(), BytesInput.from(page), Encoding.RLE, Encoding.RLE, Encoding.PLAIN);
                writer.endColumn();
                writer.endBlock();
                writer.end(this.metadata);
            } finally {
                writer.close();
            }
        }

        /** Reads the columns that were computed for the values, except the one with the label. */
        public void read(InputFile file, String label) throws IOException {
            ParquetFileReader reader = ParquetFileReader.open(file, this.options);
            try {
                long rows = this.values.size() + (this.mayBeNull ? 1 : 0);
                if (reader.getRowGroups().size() != 1 || ((BlockMetaData) reader.getRowGroups().get(0)).getRowCount() != rows) {
                    return;
                }
                BlockMetaData block = (BlockMetaData) reader.getRowGroups().get(0);
                MessageType whole = reader.getFileMetaData().getSchema();
                List fields = new ArrayList();
                for (int at = 0; at < whole.getFieldCount(); at++) {
                    Type field = (Type) whole.getFields().get(at);
                    if (!field.getName().equals(label)) {
                        if (!canHaveDictionary(field)) {
                            return;
                        }
                        fields.add(field);
                    }
                }
                MessageType columns = new MessageType(whole.getName(), fields);
                reader.setRequestedSchema(columns);
                PageReadStore pages = reader.readRowGroup(0);
                List made = new ArrayList();
                for (int at = 0; at < fields.size(); at++) {
                    ColumnDescriptor column = (ColumnDescriptor) columns.getColumns().get(at);
                    CompressionCodecName codec = BackfillDictionaries.chunkOf(block, column).getCodec();
                    Computed one = new Computed((Type) fields.get(at), codec, this.values.size());
                    if (!one.read(pages.getPageReader(column), this.mayBeNull)) {
                        return;
                    }
                    made.add(one);
                }
                this.computed = made;
            } finally {
                reader.close();
            }
        }

        private static boolean canHaveDictionary(Type field) {
            return field.isPrimitive()
                && field.isRepetition(Type.Repetition.OPTIONAL)
                && field.asPrimitiveType().getPrimitiveTypeName() != PrimitiveType.PrimitiveTypeName.BOOLEAN
                && field.asPrimitiveType().getPrimitiveTypeName() != PrimitiveType.PrimitiveTypeName.INT96;
        }
    }

    /** A column that was computed for values; null for a value that became null. */
    private static class Computed {
        private final Type type;
        private final CompressionCodecName codec;
        private final byte[][] values;
        private boolean keepsNull = true;

        Computed(Type type, CompressionCodecName codec, int size) {
            this.type = type;
            this.codec = codec;
            this.values = new byte[size][];
        }

        /** Reads the values, and what became of a null after them; returns false for another layout. */
        boolean read(PageReader computed, boolean withNull) throws IOException {
            if (computed.readDictionaryPage() != null) {
                return false;
            }
            int row = 0;
            DataPage page = computed.readPage();
            while (page != null) {
                if (!(page instanceof DataPageV1)) {
                    return false;
                }
                DataPageV1 plain = (DataPageV1) page;
                if (plain.getValueEncoding() != Encoding.PLAIN || plain.getDlEncoding() != Encoding.RLE) {
                    return false;
                }
                byte[] bytes = plain.getBytes().toByteArray();
                int length = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt();
                RunLengthBitPackingHybridDecoder levels = BackfillDictionaries.decoder(1, bytes, 4, length);
                int first = 4 + length;
                for (int at = 0; at < plain.getValueCount(); at++) {
                    if (levels.readInt() == 1) {
                        int end = first + BackfillDictionaries.sizeOf(bytes, first, this.type.asPrimitiveType());
                        if (row < this.values.length) {
                            this.values[row] = java.util.Arrays.copyOfRange(bytes, first, end);
                        } else {
                            this.keepsNull = false;
                        }
                        first = end;
                    }
                    row++;
                }
                page = computed.readPage();
            }
            return row == this.values.length + (withNull ? 1 : 0);
        }

        /** Returns the bounds of the values at some places, as readers of Parquet see them; null if one is null, or without bounds. */
        Statistics bounds(int[] places) {
            PrimitiveType type = this.type.asPrimitiveType();
            PrimitiveType.PrimitiveTypeName name = type.getPrimitiveTypeName();
            Statistics found = Statistics.createStats(type);
            for (int at = 0; at < places.length; at++) {
                byte[] value = this.values[places[at]];
                if (value == null) {
                    return null;
                }
                ByteBuffer plain = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
                if (name == PrimitiveType.PrimitiveTypeName.INT32) {
                    found.updateStats(plain.getInt());
                } else if (name == PrimitiveType.PrimitiveTypeName.INT64) {
                    found.updateStats(plain.getLong());
                } else if (name == PrimitiveType.PrimitiveTypeName.FLOAT) {
                    found.updateStats(plain.getFloat());
                } else if (name == PrimitiveType.PrimitiveTypeName.DOUBLE) {
                    found.updateStats(plain.getDouble());
                } else {
                    int first = name == PrimitiveType.PrimitiveTypeName.BINARY ? 4 : 0;
                    found.updateStats(Binary.fromConstantByteArray(value, first, value.length - first));
                }
            }
            if (!found.isSmallerThan(BOUNDS_BYTES_MAX)) {
                return null;
            }
            Statistics read = Statistics.getBuilderForReading(type).withMin(found.getMinBytes()).withMax(found.getMaxBytes()).build();
            return read.hasNonNullValue() ? read : null;
        }
    }
}
