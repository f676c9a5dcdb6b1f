import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer with its defaults that writes a record to each partition of a topic again and again, until its input ends.
 * Prints `PARTITION NANOSECONDS` of the monotonic clock for each acknowledgement, and `refused WHY` otherwise.
 *
 * Arguments: bootstrap servers, topic, number of partitions, period in milliseconds.
 */
public class Beat {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        long periodMs = Long.parseLong(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        byte[] value = {1};
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            while (System.in.available() == 0) {
                for (int index = 0; index < partitions; index++) {
                    int partition = index;
                    producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                        if (error == null) {
                            System.out.println(partition + " " + System.nanoTime());
                        } else {
                            System.out.println("refused " + error);
                        }
                    });
                }
                TimeUnit.MILLISECONDS.sleep(periodMs);
            }
        }
    }
}
