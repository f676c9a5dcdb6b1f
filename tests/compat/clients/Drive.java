import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Drives Apache's Java client, one JVM for a whole matrix; the file compiles against 2.7 to 4.3. The record file and
 * the commands are those of worker.py, where they are described.
 */
public final class Drive {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    /** As in worker.py; key, value and header values may be null. */
    private static final class Record {
        int partition;
        long offset;
        long timestampMs;
        byte[] key;
        byte[] value;
        List<Header> headers = new ArrayList<>();
    }

    private final String bootstrap;
    private final String topic;
    private final Map<String, String> fields;

    private Drive(Map<String, String> fields) {
        this.fields = fields;
        this.bootstrap = fields.get("bootstrap");
        this.topic = fields.get("topic");
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] parts = line.split("\t");
            Map<String, String> fields = new HashMap<>();
            for (int i = 1; i < parts.length; i++) {
                int equals = parts[i].indexOf('=');
                fields.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
            }
            String answer;
            try {
                answer = "ok\t" + new Drive(fields).run(parts[0]);
            } catch (Exception error) { // whatever a client throws is a finding for the judge
                error.printStackTrace();
                answer = "error\t" + String.valueOf(error).replace('\n', ' ').replace('\t', ' ');
            }
            answers.println(answer);
            answers.flush();
        }
    }

    private String run(String command) throws Exception {
        switch (command) {
            case "version":
                return "version=" + AppInfoParser.getVersion();
            case "admin":
                return "seen=" + String.join("; ", administer());
            case "produce": {
                List<Record> records = read(Path.of(fields.get("input")));
                long[] offsets = produce(records, fields.get("codec"), fields.get("acks"), "true".equals(fields.get("idempotent")));
                int acknowledged = 0;
                int right = 0;
                for (int i = 0; i < offsets.length; i++) {
                    acknowledged += offsets[i] >= 0 ? 1 : 0;
                    right += offsets[i] == records.get(i).offset ? 1 : 0;
                }
                return "records=" + offsets.length + "\tacknowledged=" + acknowledged + "\tright=" + right;
            }
            case "transact":
                return "fenced=" + transact(read(Path.of(fields.get("input"))), Integer.parseInt(fields.get("size")));
            case "consume":
            case "latest": {
                List<Record> seen = command.equals("consume") ? consume() : latest();
                seen.sort(Comparator.<Record>comparingInt(r -> r.partition).thenComparingLong(r -> r.offset));
                write(Path.of(fields.get("output")), seen);
                return "records=" + seen.size();
            }
            case "group": {
                List<Record> seen = new ArrayList<>();
                String shares = share(seen);
                seen.sort(Comparator.<Record>comparingInt(r -> r.partition).thenComparingLong(r -> r.offset));
                write(Path.of(fields.get("output")), seen);
                return "records=" + seen.size() + "\tshares=" + shares;
            }
            case "static":
                return "seen=" + comeBack();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private long[] produce(List<Record> records, String codec, String acks, boolean idempotent) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("acks", acks);
        settings.put("enable.idempotence", String.valueOf(idempotent));
        settings.put("linger.ms", "20");
        settings.put("max.request.size", "1048588");
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "10");
        long[] offsets = new long[records.size()];
        List<Future<RecordMetadata>> sent = new ArrayList<>(records.size());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (Record record : records) {
                sent.add(producer.send(
                        new ProducerRecord<>(topic, record.partition, record.timestampMs, record.key, record.value, record.headers)));
            }
            producer.flush();
            for (int i = 0; i < offsets.length; i++) {
                RecordMetadata answer = sent.get(i).get();
                offsets[i] = answer.hasOffset() ? answer.offset() : -1;
            }
        }
        return offsets;
    }

    /** See worker.py: the first part by a producer that is fenced, the rest in transactions of which every third aborts. */
    private String transact(List<Record> records, int size) throws Exception {
        String fenced = "no";
        try (KafkaProducer<byte[], byte[]> older = transactional(); KafkaProducer<byte[], byte[]> newer = transactional()) {
            older.initTransactions();
            older.beginTransaction();
            send(older, records.subList(0, size));
            newer.initTransactions();
            try {
                older.commitTransaction();
            } catch (ProducerFencedException error) {
                fenced = "yes";
            }
            for (int start = size; start < records.size(); start += size) {
                newer.beginTransaction();
                send(newer, records.subList(start, Math.min(start + size, records.size())));
                if (start / size % 3 == 2) {
                    newer.abortTransaction();
                } else {
                    newer.commitTransaction();
                }
            }
        }
        return fenced;
    }

    private KafkaProducer<byte[], byte[]> transactional() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", fields.get("id"));
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "10");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void send(KafkaProducer<byte[], byte[]> producer, List<Record> records) {
        for (Record record : records) {
            producer.send(new ProducerRecord<>(
                    topic, record.partition, record.timestampMs, record.key, record.value, record.headers));
        }
        producer.flush();
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties settings = new Properties();
        settings.put("isolation.level", fields.getOrDefault("isolation", "read_uncommitted"));
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "matrix");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("max.poll.records", "10000");
        settings.put("fetch.max.wait.ms", "20");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<TopicPartition> places() {
        List<TopicPartition> places = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(fields.get("partitions")); partition++) {
            places.add(new TopicPartition(topic, partition));
        }
        return places;
    }

    private List<Record> consume() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> places = places();
            consumer.assign(places);
            long value = Long.parseLong(fields.get("value"));
            switch (fields.get("from")) {
                case "earliest":
                    consumer.seekToBeginning(places);
                    break;
                case "timestamp":
                    Map<TopicPartition, Long> wanted = new HashMap<>();
                    places.forEach(place -> wanted.put(place, value));
                    consumer.offsetsForTimes(wanted).forEach((place, found) -> consumer.seek(place, found.offset()));
                    break;
                default:
                    places.forEach(place -> consumer.seek(place, value));
            }
            return read(consumer, places);
        }
    }

    private List<Record> latest() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> places = places();
            consumer.assign(places);
            consumer.seekToEnd(places);
            places.forEach(consumer::position); // seeking is lazy: this asks the broker
            produce(read(Path.of(fields.get("input"))), "none", "all", false);
            return read(consumer, places);
        }
    }

    /** Polls until the end that each partition has at the start. */
    private static List<Record> read(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> places) {
        Map<TopicPartition, Long> left = new HashMap<>(consumer.endOffsets(places));
        left.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
        List<Record> records = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!left.isEmpty()) {
            for (ConsumerRecord<byte[], byte[]> seen : consumer.poll(Duration.ofMillis(100))) {
                records.add(record(seen));
            }
            left.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no end after " + DEADLINE + ", " + records.size() + " records, left " + left);
            }
        }
        return records;
    }

    /** As in worker.py: a consumer that joins a group and subscribes. */
    private KafkaConsumer<byte[], byte[]> member(String instance) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", fields.get("group"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "300");
        settings.put("fetch.max.wait.ms", "20");
        if (instance != null) {
            settings.put("group.instance.id", instance);
        }
        KafkaConsumer<byte[], byte[]> member = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        member.subscribe(List.of(topic));
        return member;
    }

    private static void pollUntil(List<KafkaConsumer<byte[], byte[]>> members, Supplier<Boolean> holds, String what) {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!holds.get()) {
            for (KafkaConsumer<byte[], byte[]> member : members) {
                if (!member.poll(Duration.ofMillis(50)).isEmpty()) {
                    throw new IllegalStateException("there is nothing to read yet");
                }
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(what + ": no end after " + DEADLINE);
            }
        }
    }

    /** Whether the members have all partitions, each of them some. */
    private boolean isShared(List<KafkaConsumer<byte[], byte[]>> members) {
        Set<TopicPartition> all = new HashSet<>();
        int sum = 0;
        for (KafkaConsumer<byte[], byte[]> member : members) {
            if (member.assignment().isEmpty()) {
                return false;
            }
            sum += member.assignment().size();
            all.addAll(member.assignment());
        }
        return sum == places().size() && all.size() == sum;
    }

    /** Produces a third of the records, and reads as many with these members, who commit each poll. */
    private void produceAndRead(List<KafkaConsumer<byte[], byte[]>> members, int part, List<Record> seen) throws Exception {
        List<Record> records = read(Path.of(fields.get("input")));
        int third = records.size() / 3;
        produce(records.subList(part * third, (part + 1) * third), "none", "all", false);
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        int wanted = seen.size() + third;
        while (seen.size() < wanted) {
            for (KafkaConsumer<byte[], byte[]> member : members) {
                for (ConsumerRecord<byte[], byte[]> one : member.poll(Duration.ofMillis(50))) {
                    seen.add(record(one));
                }
                member.commitSync();
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no end after " + DEADLINE + ", " + seen.size() + " of " + wanted + " records");
            }
        }
    }

    private String share(List<Record> seen) throws Exception {
        KafkaConsumer<byte[], byte[]> first = member(null);
        int partitions = places().size();
        pollUntil(List.of(first), () -> first.assignment().size() == partitions, "the first member");
        KafkaConsumer<byte[], byte[]> second = member(null);
        pollUntil(List.of(first, second), () -> isShared(List.of(first, second)), "the second member");
        int one = first.assignment().size();
        String shares = Math.min(one, partitions - one) + "+" + Math.max(one, partitions - one);
        produceAndRead(List.of(first, second), 0, seen);
        first.close();
        pollUntil(List.of(second), () -> second.assignment().size() == partitions, "the second member alone");
        produceAndRead(List.of(second), 1, seen);
        second.close();
        try (KafkaConsumer<byte[], byte[]> third = member(null)) {
            produceAndRead(List.of(third), 2, seen);
        }
        return shares;
    }

    private String comeBack() {
        KafkaConsumer<byte[], byte[]> one = member("one");
        KafkaConsumer<byte[], byte[]> two = member("two");
        pollUntil(List.of(one, two), () -> isShared(List.of(one, two)), "two static members");
        Set<TopicPartition> before = Set.copyOf(one.assignment());
        Set<TopicPartition> others = Set.copyOf(two.assignment());
        one.close();
        KafkaConsumer<byte[], byte[]> back = member("one");
        boolean[] changed = {false};
        pollUntil(List.of(back, two), () -> {
            changed[0] |= !two.assignment().equals(others);
            return !back.assignment().isEmpty();
        }, "the static member that came back");
        boolean kept = back.assignment().equals(before) && !changed[0];
        back.close();
        two.close();
        return kept ? "kept" : "rebalanced";
    }

    private static Record record(ConsumerRecord<byte[], byte[]> seen) {
        Record record = new Record();
        record.partition = seen.partition();
        record.offset = seen.offset();
        record.timestampMs = seen.timestamp();
        record.key = seen.key();
        record.value = seen.value();
        seen.headers().forEach(record.headers::add);
        return record;
    }

    private List<String> administer() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        List<String> seen = new ArrayList<>();
        try (Admin admin = Admin.create(settings)) {
            seen.add(create(admin, Map.of("retention.ms", "123456789")));
            seen.add("partitions " + eventually(() -> partitions(admin), "3"));
            seen.add("retention.ms " + config(admin, "retention.ms"));
            seen.add(create(admin, Map.of()));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            seen.add("partitions " + eventually(() -> partitions(admin), "5"));
            incremental(admin, "segment.bytes", "2097152", AlterConfigOp.OpType.SET);
            seen.add("segment.bytes " + eventually(() -> config(admin, "segment.bytes"), "2097152 DYNAMIC_TOPIC_CONFIG"));
            incremental(admin, "segment.bytes", "", AlterConfigOp.OpType.DELETE);
            seen.add("segment.bytes " + eventually(() -> config(admin, "segment.bytes"), "1073741824 DEFAULT_CONFIG"));
            seen.add("retention.ms " + config(admin, "retention.ms"));
            if (replace(admin, "max.message.bytes", "2000000")) {
                seen.add("max.message.bytes "
                        + eventually(() -> config(admin, "max.message.bytes"), "2000000 DYNAMIC_TOPIC_CONFIG"));
            }
            admin.deleteTopics(List.of(topic)).all().get();
            seen.add("partitions " + eventually(() -> partitions(admin), "none"));
        }
        return seen;
    }

    private String create(Admin admin, Map<String, String> configs) throws Exception {
        try {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(3), Optional.of((short) 1)).configs(configs))).all().get();
            return "created";
        } catch (ExecutionException error) {
            return org.apache.kafka.common.protocol.Errors.forException((ApiException) error.getCause()).name();
        }
    }

    @SuppressWarnings("unchecked")
    private String partitions(Admin admin) {
        try {
            // `values` became `topicNameValues` in 3.1 and is gone in 4.0.
            DescribeTopicsResult result = admin.describeTopics(List.of(topic));
            Method method = Optional.ofNullable(find(result.getClass(), "topicNameValues")).orElse(find(result.getClass(), "values"));
            Map<String, KafkaFuture<TopicDescription>> found = (Map<String, KafkaFuture<TopicDescription>>) method.invoke(result);
            return String.valueOf(found.get(topic).get().partitions().size());
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return "none";
            }
            throw new IllegalStateException(error);
        } catch (ReflectiveOperationException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private ConfigResource resource() {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private String config(Admin admin, String name) {
        try {
            ConfigEntry entry = admin.describeConfigs(List.of(resource())).all().get().get(resource()).get(name);
            return entry.value() + " " + entry.source();
        } catch (ExecutionException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void incremental(Admin admin, String name, String value, AlterConfigOp.OpType type) throws Exception {
        Collection<AlterConfigOp> changes = List.of(new AlterConfigOp(new ConfigEntry(name, value), type));
        admin.incrementalAlterConfigs(Map.of(resource(), changes)).all().get();
    }

    /** AlterConfigs, which the client lost in 4.0: false if it has none. */
    private boolean replace(Admin admin, String name, String value) throws Exception {
        Method method = find(Admin.class, "alterConfigs");
        if (method == null) {
            return false;
        }
        Object result = method.invoke(admin, Map.of(resource(), new Config(List.of(new ConfigEntry(name, value)))));
        ((KafkaFuture<?>) find(result.getClass(), "all").invoke(result)).get();
        return true;
    }

    /** The public method of that name with the fewest parameters, or null. */
    private static Method find(Class<?> type, String name) {
        Method found = null;
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && (found == null || method.getParameterCount() < found.getParameterCount())) {
                found = method;
            }
        }
        return found;
    }

    /** As in worker.py: asks until the answer is the wanted one, since metadata spreads after an answer. */
    private static String eventually(Supplier<String> see, String wanted) throws InterruptedException {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        String seen = see.get();
        while (!seen.equals(wanted) && System.nanoTime() < deadline) {
            Thread.sleep(20);
            seen = see.get();
        }
        return seen;
    }

    private static List<Record> read(Path path) throws IOException {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path));
        List<Record> records = new ArrayList<>();
        while (data.hasRemaining()) {
            Record record = new Record();
            record.partition = data.getInt();
            record.offset = data.getLong();
            record.timestampMs = data.getLong();
            record.key = take(data);
            record.value = take(data);
            int headers = data.getInt();
            for (int i = 0; i < headers; i++) {
                record.headers.add(new RecordHeader(new String(take(data), StandardCharsets.UTF_8), take(data)));
            }
            records.add(record);
        }
        return records;
    }

    private static byte[] take(ByteBuffer data) {
        int length = data.getInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        data.get(bytes);
        return bytes;
    }

    private static void write(Path path, List<Record> records) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(bytes);
        for (Record record : records) {
            data.writeInt(record.partition);
            data.writeLong(record.offset);
            data.writeLong(record.timestampMs);
            put(data, record.key);
            put(data, record.value);
            data.writeInt(record.headers.size());
            for (Header header : record.headers) {
                put(data, header.key().getBytes(StandardCharsets.UTF_8));
                put(data, header.value());
            }
        }
        Files.write(path, bytes.toByteArray());
    }

    private static void put(DataOutputStream data, byte[] bytes) throws IOException {
        data.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            data.write(bytes);
        }
    }
}
