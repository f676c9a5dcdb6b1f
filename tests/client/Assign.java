import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/**
 * Assigns with Kafka's own classes. A line is fields separated by tabs:
 *
 *   assign  ASSIGNOR  topic=count,...  member  instance or -  subscription in hex  (and so on, three fields a member)
 *   sticky  generation  topic=number,...     what the sticky assignor writes into its user data, in hex
 *
 * The answer to assign is member=assignment in hex, separated by tabs.
 */
public final class Assign {
    /** Kafka 2.7 reads user data once, and finds them empty where members read different topics: here they are read again. */
    private static final class RereadingStickyAssignor extends StickyAssignor {
        @Override
        protected MemberData memberData(Subscription subscription) {
            ByteBuffer data = subscription.userData();
            int position = data == null ? 0 : data.position();
            MemberData found = super.memberData(subscription);
            if (data != null) {
                data.position(position);
            }
            return found;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            System.out.println(fields[0].equals("sticky") ? sticky(fields) : assign(fields));
        }
    }

    private static List<String[]> pairs(String text) {
        List<String[]> found = new ArrayList<>();
        for (String pair : text.split(",")) {
            if (!pair.isEmpty()) {
                found.add(pair.split("="));
            }
        }
        return found;
    }

    private static String sticky(String[] fields) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (String[] pair : pairs(fields[2])) {
            partitions.add(new TopicPartition(pair[0], Integer.parseInt(pair[1])));
        }
        StickyAssignor assignor = new StickyAssignor();
        ConsumerGroupMetadata metadata = new ConsumerGroupMetadata("g", Integer.parseInt(fields[1]), "m", Optional.empty());
        assignor.onAssignment(new Assignment(partitions), metadata);
        return hex(assignor.subscriptionUserData(null));
    }

    private static String assign(String[] fields) {
        Map<String, AbstractPartitionAssignor> assignors = new HashMap<>();
        for (AbstractPartitionAssignor each : Arrays.asList(
                new RangeAssignor(), new RoundRobinAssignor(), new RereadingStickyAssignor(), new CooperativeStickyAssignor())) {
            assignors.put(each.name(), each);
        }
        Map<String, Integer> counts = new HashMap<>();
        for (String[] pair : pairs(fields[2])) {
            counts.put(pair[0], Integer.parseInt(pair[1]));
        }
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int i = 3; i < fields.length; i += 3) {
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes(fields[i + 2]));
            subscription.setGroupInstanceId(fields[i + 1].equals("-") ? Optional.empty() : Optional.of(fields[i + 1]));
            subscriptions.put(fields[i], subscription);
        }
        Map<String, List<TopicPartition>> found = assignors.get(fields[1]).assign(counts, subscriptions);
        StringBuilder answer = new StringBuilder();
        for (Map.Entry<String, List<TopicPartition>> entry : found.entrySet()) {
            answer.append(answer.length() == 0 ? "" : "\t").append(entry.getKey()).append('=');
            answer.append(hex(ConsumerProtocol.serializeAssignment(new Assignment(entry.getValue()))));
        }
        return answer.toString();
    }

    private static ByteBuffer bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return ByteBuffer.wrap(found);
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder text = new StringBuilder();
        while (buffer.hasRemaining()) {
            text.append(String.format("%02x", buffer.get()));
        }
        return text.toString();
    }
}
