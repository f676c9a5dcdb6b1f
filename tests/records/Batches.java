import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;

/** Reads batches from a file, prints them record by record, and writes the first batch's records to another file in every codec. */
public class Batches {
    public static void main(String[] arguments) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Paths.get(arguments[0]))));
        List<SimpleRecord> first = new ArrayList<>();
        boolean isFirst = true;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            System.out.println(String.join(" ", "batch", batch.compressionType().name, "" + batch.baseOffset(), "" + batch.lastOffset(),
                "" + batch.producerId(), "" + batch.producerEpoch(), "" + batch.baseSequence(), "" + batch.lastSequence(),
                "" + batch.isTransactional(), "" + batch.isControlBatch(), "" + batch.maxTimestamp()));
            for (Record record : batch) {
                if (batch.isControlBatch()) {
                    EndTransactionMarker marker = EndTransactionMarker.deserialize(record);
                    System.out.println("marker " + marker.controlType() + " " + marker.coordinatorEpoch());
                    continue;
                }
                StringBuilder line = new StringBuilder("record " + record.offset() + " " + record.timestamp());
                line.append(" " + text(record.key()) + " " + text(record.value()));
                for (Header header : record.headers()) {
                    line.append(" " + text(ByteBuffer.wrap(header.key().getBytes("UTF-8"))));
                    line.append("=" + text(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                }
                System.out.println(line);
                if (isFirst) {
                    first.add(new SimpleRecord(record));
                }
            }
            isFirst = false;
        }
        try (OutputStream out = new FileOutputStream(arguments[1])) {
            long offset = 0;
            for (CompressionType codec : CompressionType.values()) {
                MemoryRecords written = MemoryRecords.withRecords(offset, codec, first.toArray(new SimpleRecord[0]));
                write(out, written.buffer());
                offset += first.size();
            }
            write(out, MemoryRecords.withEndTransactionMarker(offset, 1700000000000L, 4, 42L, (short) 7,
                new EndTransactionMarker(ControlRecordType.ABORT, 9)).buffer());
        }
    }

    private static void write(OutputStream out, ByteBuffer buffer) throws Exception {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        out.write(bytes);
    }

    /** Base64 in dots, so that the empty string is seen; a dash for null. */
    private static String text(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "." + Base64.getEncoder().encodeToString(bytes);
    }
}
