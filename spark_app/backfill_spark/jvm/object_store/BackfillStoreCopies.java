package io.delta.kernel.defaults.internal.parquet;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.store.audit.AuditSpan;
import org.apache.hadoop.fs.store.audit.AuditSpanSource;
import org.apache.parquet.ParquetReadOptions;
import software.amazon.awssdk.awscore.exception.AwsErrorDetails;
import software.amazon.awssdk.core.ResponseInputStream;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.CopyObjectRequest;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.GetObjectResponse;
import software.amazon.awssdk.services.s3.model.HeadObjectRequest;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.utils.builder.ToCopyableBuilder;

/** Performs requests for many objects of a store; a step that fails has the store's answer as its result (ADR 0050). */
public class BackfillStoreCopies extends BackfillFileCopies {
    private final AuditSpanSource sourceSpans;
    private final AuditSpanSource targetSpans;
    private final S3Client source;
    private final S3Client target;
    private final HeadObjectRequest sourceHead;
    private final HeadObjectRequest targetHead;
    private final GetObjectRequest get;
    private final CopyObjectRequest copy;

    /** `clients`: those of the source and the target; `systems`: their file systems; `requests`: HEAD, GET, COPY and the target's HEAD. */
    public BackfillStoreCopies(List systems, List clients, List requests, ParquetReadOptions options) {
        super(((FileSystem) systems.get(0)).getConf(), options);
        this.sourceSpans = (AuditSpanSource) systems.get(0);
        this.targetSpans = (AuditSpanSource) systems.get(1);
        this.source = (S3Client) clients.get(0);
        this.target = (S3Client) clients.get(1);
        this.sourceHead = (HeadObjectRequest) requests.get(0);
        this.get = (GetObjectRequest) requests.get(1);
        this.copy = (CopyObjectRequest) requests.get(2);
        this.targetHead = (HeadObjectRequest) requests.get(3);
    }

    protected String done(String[] task) throws Exception {
        if (task[0].equals("describe")) {
            return this.described(task);
        }
        if (task[0].equals("copy")) {
            return this.copied(task);
        }
        long began = System.nanoTime();
        String described = fields(this.head(this.source, this.sourceSpans, this.sourceHead, task[2]));
        return described + "\t" + (System.nanoTime() - began);
    }

    protected String failed(Throwable failure) {
        if (!(failure instanceof S3Exception)) {
            return super.failed(failure);
        }
        S3Exception refused = (S3Exception) failure;
        AwsErrorDetails details = refused.awsErrorDetails();
        String code = details == null ? "" : plain(details.errorCode());
        String message = details == null ? "" : plain(details.errorMessage());
        return refused.statusCode() + "\t" + code + "\t" + message;
    }

    private HeadObjectResponse head(S3Client client, AuditSpanSource spans, HeadObjectRequest request, String key) throws IOException {
        AuditSpan span = (AuditSpan) spans.createSpan("op_get_file_status", key, null);
        span.activate();
        try {
            HeadObjectRequest.Builder builder = (HeadObjectRequest.Builder) changed(request);
            return client.headObject((HeadObjectRequest) builder.key(key).build());
        } finally {
            span.close();
        }
    }

    /** Reads the last bytes of an object of a size; with an ETag only of the object that has it. */
    protected BackfillFileCopies.End end(String key, String etag, long size, int bytes) throws IOException {
        AuditSpan span = (AuditSpan) this.sourceSpans.createSpan("op_open", key, null);
        span.activate();
        try {
            String range = "bytes=" + Math.max(0L, size - bytes) + "-" + (size - 1);
            GetObjectRequest.Builder builder = (GetObjectRequest.Builder) changed(this.get);
            GetObjectRequest request = (GetObjectRequest) builder.key(key).ifMatch(etag).range(range).build();
            ResponseInputStream answer = (ResponseInputStream) this.source.getObject(request);
            try {
                GetObjectResponse described = (GetObjectResponse) answer.response();
                byte[] end = answer.readAllBytes();
                String of = described.contentRange(); // a store that ignores ranges answers without one, and sends the whole object
                long whole = of == null ? end.length : Long.parseLong(of.substring(of.lastIndexOf('/') + 1));
                return new BackfillFileCopies.End(end, described.eTag(), whole);
            } finally {
                answer.close();
            }
        } finally {
            span.close();
        }
    }

    /** Copies an object, describes the copy, and measures the footer that was read before. Task: key, new key, ETag, measure, deleted rows. */
    private String copied(String[] task) throws IOException {
        AuditSpan span = (AuditSpan) this.targetSpans.createSpan("op_rename", task[3], null);
        span.activate();
        try {
            CopyObjectRequest.Builder builder = (CopyObjectRequest.Builder) changed(this.copy);
            builder.sourceKey(task[2]).destinationKey(task[3]).copySourceIfMatch(task[4]);
            this.target.copyObject((CopyObjectRequest) builder.build());
        } finally {
            span.close();
        }
        long began = System.nanoTime();
        String made = fields(this.head(this.target, this.targetSpans, this.targetHead, task[3]));
        long took = System.nanoTime() - began;
        return made + "\t" + took + "\t" + this.measured(task[1], task[5], task[6]);
    }

    /** Returns a new builder of a request; by its interface, because the compiler sees two methods `toBuilder` in the class. */
    private static Object changed(Object request) {
        return ((ToCopyableBuilder) request).toBuilder();
    }

    private static String fields(HeadObjectResponse answer) {
        return answer.contentLength() + "\t" + plain(answer.eTag()) + "\t" + plain(answer.checksumCRC32C()) + "\t"
            + plain(answer.checksumTypeAsString());
    }
}
