import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One member of a mixed group, of Apache's Java client; what it says is described in test_mixed_groups.py. */
public final class GroupMember {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        String assignors = "org.apache.kafka.clients.consumer.";
        String assignor = switch (arguments[3]) {
            case "range" -> assignors + "RangeAssignor";
            case "roundrobin" -> assignors + "RoundRobinAssignor";
            case "sticky" -> assignors + "StickyAssignor";
            default -> assignors + "CooperativeStickyAssignor";
        };
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("partition.assignment.strategy", assignor);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "100");
        settings.put("retry.backoff.ms", "20");
        AtomicBoolean ends = new AtomicBoolean();
        Thread commands = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
            ends.set(true);
        });
        commands.setDaemon(true);
        commands.start();
        try (KafkaConsumer<byte[], byte[]> member =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            member.subscribe(List.of(arguments[1]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    member.commitSync();
                }
            });
            TreeSet<Integer> said = new TreeSet<>();
            while (!ends.get()) {
                StringBuilder read = new StringBuilder();
                for (ConsumerRecord<byte[], byte[]> record : member.poll(Duration.ofMillis(50))) {
                    read.append(read.length() == 0 ? "read\t" : ",").append(new String(record.value()));
                }
                if (read.length() > 0) {
                    out.println(read);
                    try {
                        member.commitSync();
                    } catch (RebalanceInProgressException error) {
                        // The next commit has these as well, that of onPartitionsRevoked at the latest.
                    }
                }
                TreeSet<Integer> has = new TreeSet<>();
                for (TopicPartition partition : member.assignment()) {
                    has.add(partition.partition());
                }
                if (!has.equals(said)) {
                    said = has;
                    out.println("has\t" + has.toString().replaceAll("[\\[\\] ]", ""));
                    out.flush();
                }
            }
            member.commitSync();
        }
        out.println("left");
    }
}
