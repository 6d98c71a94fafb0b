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
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

/**
 * The dictionaries of one column of a file, and columns that were computed from them (ADR 0068).
 *
 * `writeValues` writes the values of a dictionary as the rows of a small file, with a null at the end if the column has nulls. Spark
 * computes columns for these rows. `writeColumns` writes the same columns for all rows: their values are the new dictionary, and the
 * numbers of the values in the data pages stay as they are.
 */
public class BackfillDictionaries {
    private static final int TRUNCATED_BOUND = 64;
    private static final int PAGE_BYTES = 1048576;

    private final InputFile file;
    private final ParquetReadOptions options;
    private final MessageType schema;
    private final ColumnDescriptor column;
    private final List dictionaries = new ArrayList();
    private final List mayBeNull = new ArrayList();

    private BackfillDictionaries(InputFile file, ParquetReadOptions options, MessageType schema) {
        this.file = file;
        this.options = options;
        this.schema = schema;
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
            BackfillDictionaries opened = new BackfillDictionaries(file, options, schema);
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

    private int rows(int group) {
        return this.size(group) + (((Boolean) this.mayBeNull.get(group)).booleanValue() ? 1 : 0);
    }

    /** Writes the values of a row group's dictionary, in its order. */
    public void writeValues(int group, OutputFile target, Map metadata) throws IOException {
        int rows = this.rows(group);
        byte[] values = ((DictionaryPage) this.dictionaries.get(group)).getBytes().toByteArray();
        ByteArrayOutputStream page = new ByteArrayOutputStream(values.length + 16);
        if (this.column.getMaxDefinitionLevel() > 0) {
            RunLengthBitPackingHybridEncoder levels = encoder(1);
            for (int row = 0; row < rows; row++) {
                levels.writeInt(row < this.size(group) ? 1 : 0);
            }
            withLength(page, levels.toBytes().toByteArray());
        }
        page.write(values);
        ParquetFileWriter writer = writer(target, this.schema);
        try {
            writer.start();
            writer.startBlock(rows);
            writer.startColumn(this.column, rows, CompressionCodecName.UNCOMPRESSED);
            writer.writeDataPage(rows, page.size(), BytesInput.from(page), Encoding.RLE, Encoding.RLE, Encoding.PLAIN);
            writer.endColumn();
            writer.endBlock();
            writer.end(metadata);
        } finally {
            writer.close();
        }
    }

    /**
     * Writes the columns that were computed for the values of a row group for all rows of the group.
     *
     * Returns false if that is not possible; then an incomplete file may remain. The reasons: the row group has a value without a row
     * or a row without a value, a value became null or a null became a value, or a computed column cannot have a dictionary, bounds,
     * or only one level.
     */
    public boolean writeColumns(int group, InputFile computed, String label, OutputFile target, Map metadata) throws IOException {
        List pages = this.pages(group);
        if (pages == null) {
            return false;
        }
        ParquetFileReader reader = ParquetFileReader.open(computed, this.options);
        try {
            if (reader.getRowGroups().size() != 1) {
                return false;
            }
            BlockMetaData block = (BlockMetaData) reader.getRowGroups().get(0);
            List fields = new ArrayList();
            MessageType whole = reader.getFileMetaData().getSchema();
            for (int at = 0; at < whole.getFieldCount(); at++) {
                Type field = (Type) whole.getFields().get(at);
                if (!field.getName().equals(label)) {
                    if (!this.canHaveDictionary(field) || block.getRowCount() != this.rows(group)) {
                        return false;
                    }
                    fields.add(field);
                }
            }
            MessageType columns = new MessageType(whole.getName(), fields);
            reader.setRequestedSchema(columns);
            PageReadStore values = reader.readRowGroup(0);
            long rows = 0;
            for (int at = 0; at < pages.size(); at++) {
                rows += (long) ((Page) pages.get(at)).count;
            }
            ParquetFileWriter writer = writer(target, columns);
            try {
                writer.start();
                writer.startBlock(rows);
                for (int at = 0; at < columns.getColumns().size(); at++) {
                    ColumnDescriptor made = (ColumnDescriptor) columns.getColumns().get(at);
                    if (!this.append(writer, made, chunkOf(block, made), values.getPageReader(made), group, pages)) {
                        return false;
                    }
                }
                writer.endBlock();
                writer.end(metadata);
                return true;
            } finally {
                writer.close();
            }
        } finally {
            reader.close();
        }
    }

    private boolean canHaveDictionary(Type field) {
        return field.isPrimitive()
            && field.isRepetition(Type.Repetition.OPTIONAL)
            && field.asPrimitiveType().getPrimitiveTypeName() != PrimitiveType.PrimitiveTypeName.BOOLEAN;
    }

    private boolean append(ParquetFileWriter writer, ColumnDescriptor made, ColumnChunkMetaData chunk, PageReader computed, int group,
            List pages) throws IOException {
        Statistics bounds = chunk.getStatistics();
        byte[] values = this.plainValues(computed, group);
        if (values == null || bounds == null || !bounds.hasNonNullValue()) {
            return false;
        }
        int[] numbers = new int[this.size(group)];
        byte[] dictionary = distinct(values, made.getPrimitiveType(), numbers);
        int size = 0;
        for (int at = 0; at < numbers.length; at++) {
            size = Math.max(size, numbers[at] + 1);
        }
        MessageType alone = new MessageType("column", Collections.singletonList(made.getPrimitiveType()));
        ColumnChunkPageWriteStore store = new ColumnChunkPageWriteStore(
            this.options.getCodecFactory().getCompressor(chunk.getCodec()), alone, new HeapByteBufferAllocator(), TRUNCATED_BOUND, true);
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

    /** The values that Spark computed for a dictionary, one after the other; null if nulls are not where they were, or of another layout. */
    private byte[] plainValues(PageReader computed, int group) throws IOException {
        if (computed.readDictionaryPage() != null) {
            return null;
        }
        ByteArrayOutputStream values = new ByteArrayOutputStream();
        int row = 0;
        DataPage page = computed.readPage();
        while (page != null) {
            if (!(page instanceof DataPageV1)) {
                return null;
            }
            DataPageV1 plain = (DataPageV1) page;
            if (plain.getValueEncoding() != Encoding.PLAIN || plain.getDlEncoding() != Encoding.RLE) {
                return null;
            }
            byte[] bytes = plain.getBytes().toByteArray();
            int length = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt();
            RunLengthBitPackingHybridDecoder levels = decoder(1, bytes, 4, length);
            for (int at = 0; at < plain.getValueCount(); at++) {
                if (levels.readInt() != (row < this.size(group) ? 1 : 0)) {
                    return null;
                }
                row++;
            }
            values.write(bytes, 4 + length, bytes.length - 4 - length);
            page = computed.readPage();
        }
        return row == this.rows(group) ? values.toByteArray() : null;
    }

    /** The data pages of a row group; null if a page has another layout, or if a value of the dictionary has no row. */
    private List pages(int group) throws IOException {
        ParquetFileReader reader = ParquetFileReader.open(this.file, this.options);
        try {
            reader.setRequestedSchema(this.schema);
            PageReader source = reader.readRowGroup(group).getPageReader(this.column);
            List pages = new ArrayList();
            boolean[] used = new boolean[this.size(group)];
            boolean nullable = ((Boolean) this.mayBeNull.get(group)).booleanValue();
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

    /** Returns a dictionary without doubled values, and sets the number of each value in it. */
    private static byte[] distinct(byte[] values, PrimitiveType type, int[] numbers) {
        Map known = new HashMap();
        ByteArrayOutputStream kept = new ByteArrayOutputStream(values.length);
        int first = 0;
        for (int at = 0; at < numbers.length; at++) {
            int size = sizeOf(values, first, type);
            ByteBuffer value = ByteBuffer.wrap(java.util.Arrays.copyOfRange(values, first, first + size));
            Object number = known.get(value);
            if (number == null) {
                number = Integer.valueOf(known.size());
                known.put(value, number);
                kept.write(values, first, size);
            }
            numbers[at] = ((Integer) number).intValue();
            first += size;
        }
        return kept.toByteArray();
    }

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
}
