import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.consumer.Blacklist;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.consumer.Whitelist;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndMetadata;
import kafka.message.MessageAndOffset;
import kafka.producer.ByteArrayPartitioner;
import kafka.producer.DefaultPartitioner;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/**
 * The clients of Kafka before 0.9's new ones, as programs used them; compiles against 0.8.2 to 0.10.2.
 *
 * <pre>
 * consume ZOOKEEPER GROUP TOPIC|white:REGEX|black:REGEX STREAMS [name=value ...]
 *     prints "ready", then "STREAM TOPIC PARTITION OFFSET VALUE" for each message; takes the lines "commit" (answers
 *     "committed") and "stop" (also the end of its input)
 * produce BROKERS TOPIC [name=value ...]      each line of its input is KEY VALUE; "-" is no key
 * fetch HOST PORT TOPIC PARTITION OFFSET BYTES   prints OFFSET VALUE, and "error N"
 * offsets HOST PORT TOPIC PARTITION TIME COUNT
 * partitions COUNT                            for each line: the partition of it as a string, and as bytes
 * hashes                                      for each line: String.hashCode
 * </pre>
 */
public final class OldClients {
    private static final PrintStream OUT = new PrintStream(System.out, true);
    private static boolean isStopped;
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    public static void main(String[] arguments) throws Exception {
        List<String> rest = Arrays.asList(arguments).subList(1, arguments.length);
        switch (arguments[0]) {
            case "consume": consume(rest); break;
            case "produce": produce(rest); break;
            case "fetch": fetch(rest); break;
            case "offsets": offsets(rest); break;
            case "partitions": partitions(Integer.parseInt(rest.get(0))); break;
            case "hashes": hashes(); break;
            default: throw new IllegalArgumentException(arguments[0]);
        }
        OUT.flush();
        System.exit(0);
    }

    private static Properties settings(List<String> pairs) {
        Properties settings = new Properties();
        for (String pair : pairs) {
            int at = pair.indexOf('=');
            settings.setProperty(pair.substring(0, at), pair.substring(at + 1));
        }
        return settings;
    }

    private static void consume(List<String> a) throws Exception {
        Properties settings = settings(a.subList(4, a.size()));
        settings.setProperty("zookeeper.connect", a.get(0));
        settings.setProperty("group.id", a.get(1));
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        String what = a.get(2);
        int count = Integer.parseInt(a.get(3));
        List<KafkaStream<byte[], byte[]>> streams;
        if (what.startsWith("white:")) {
            streams = connector.createMessageStreamsByFilter(new Whitelist(what.substring(6)), count);
        } else if (what.startsWith("black:")) {
            streams = connector.createMessageStreamsByFilter(new Blacklist(what.substring(6)), count);
        } else {
            streams = connector.createMessageStreams(Collections.singletonMap(what, count)).get(what);
        }
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < streams.size(); number++) {
            int stream = number;
            Thread thread = new Thread(() -> read(stream, streams.get(stream)));
            thread.start();
            threads.add(thread);
        }
        OUT.println("ready");
        String line;
        while ((line = IN.readLine()) != null && !line.equals("stop")) {
            if (line.equals("commit")) {
                connector.commitOffsets();
                OUT.println("committed");
            }
        }
        synchronized (OUT) {
            isStopped = true;
        }
        connector.shutdown();
        // The streams of a filter that no topic has matched are never told that they end.
        long deadline = System.currentTimeMillis() + 3_000;
        for (Thread thread : threads) thread.join(Math.max(1, deadline - System.currentTimeMillis()));
    }

    private static void read(int stream, KafkaStream<byte[], byte[]> messages) {
        while (true) {
            try {
                ConsumerIterator<byte[], byte[]> iterator = messages.iterator();
                while (iterator.hasNext()) {
                    synchronized (OUT) {
                        // A message that is taken after the last commit would come again.
                        if (isStopped) return;
                        MessageAndMetadata<byte[], byte[]> each = iterator.next();
                        OUT.println(stream + " " + each.topic() + " " + each.partition() + " " + each.offset() + " "
                            + new String(each.message(), StandardCharsets.UTF_8));
                    }
                }
                return;
            } catch (ConsumerTimeoutException none) {
                OUT.println("timeout");
            }
        }
    }

    private static void produce(List<String> a) throws Exception {
        Properties settings = settings(a.subList(2, a.size()));
        settings.setProperty("metadata.broker.list", a.get(0));
        settings.putIfAbsent("key.serializer.class", "kafka.serializer.StringEncoder");
        settings.putIfAbsent("serializer.class", "kafka.serializer.StringEncoder");
        settings.putIfAbsent("request.required.acks", "1");
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        List<KeyedMessage<String, String>> batch = new ArrayList<>();
        String line;
        while ((line = IN.readLine()) != null) {
            int at = line.indexOf(' ');
            String key = line.substring(0, at);
            batch.add(new KeyedMessage<>(a.get(1), key.equals("-") ? null : key, line.substring(at + 1)));
        }
        producer.send(batch);
        producer.close();
        OUT.println("sent " + batch.size());
    }

    private static void fetch(List<String> a) {
        SimpleConsumer consumer =
            new SimpleConsumer(a.get(0), Integer.parseInt(a.get(1)), 30_000, 65_536, "old-clients");
        String topic = a.get(2);
        int partition = Integer.parseInt(a.get(3));
        FetchResponse answer = consumer.fetch(new FetchRequestBuilder().clientId("old-clients")
            .addFetch(topic, partition, Long.parseLong(a.get(4)), Integer.parseInt(a.get(5))).build());
        OUT.println("error " + answer.errorCode(topic, partition));
        for (MessageAndOffset each : answer.messageSet(topic, partition)) {
            ByteBuffer payload = each.message().payload();
            byte[] bytes = new byte[payload.remaining()];
            payload.get(bytes);
            OUT.println(each.offset() + " " + new String(bytes, StandardCharsets.UTF_8));
        }
        consumer.close();
    }

    private static void offsets(List<String> a) {
        SimpleConsumer consumer =
            new SimpleConsumer(a.get(0), Integer.parseInt(a.get(1)), 30_000, 65_536, "old-clients");
        TopicAndPartition place = new TopicAndPartition(a.get(2), Integer.parseInt(a.get(3)));
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = Collections.singletonMap(
            place, new PartitionOffsetRequestInfo(Long.parseLong(a.get(4)), Integer.parseInt(a.get(5))));
        OffsetResponse answer = consumer.getOffsetsBefore(
            new kafka.javaapi.OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), "old-clients"));
        OUT.println("error " + answer.errorCode(place.topic(), place.partition()));
        for (long offset : answer.offsets(place.topic(), place.partition())) OUT.println(offset);
        consumer.close();
    }

    private static void partitions(int count) throws Exception {
        DefaultPartitioner strings = new DefaultPartitioner(null);
        ByteArrayPartitioner bytes = new ByteArrayPartitioner(null);
        String line;
        while ((line = IN.readLine()) != null) {
            OUT.println(strings.partition(line, count) + " "
                + bytes.partition(line.getBytes(StandardCharsets.UTF_8), count));
        }
    }

    private static void hashes() throws Exception {
        String line;
        while ((line = IN.readLine()) != null) OUT.println(line.hashCode());
    }
}
