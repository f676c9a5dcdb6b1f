// Prints every setting that Apache Kafka's broker and topics define, one per line, tab-separated:
//   broker  NAME  TYPE  DEFAULT  VALIDATOR  IMPORTANCE  MODE
//   dynamic NAME  TYPE  DEFAULT  VALIDATOR  IMPORTANCE           (what only the coordination tree can hold)
//   topic   NAME  TYPE  DEFAULT  VALIDATOR  IMPORTANCE  BROKER-SYNONYM
//   synonyms  NAME  SYNONYM,...
// A null default is written \N and "no default" (required) is written \R; tabs and newlines are escaped.
// Run by `java -cp 'kafka-2.7.2/libs/*' KafkaDefinitions.java`.
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import scala.jdk.javaapi.CollectionConverters;

public class KafkaDefinitions {
    static String text(ConfigDef.ConfigKey key) {
        if (key.defaultValue == ConfigDef.NO_DEFAULT_VALUE) return "\\R";
        if (key.defaultValue == null) return "\\N";
        String text = ConfigDef.convertToString(key.defaultValue, key.type);
        return escape(text);
    }

    static String escape(Object value) {
        return String.valueOf(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
    }

    static void line(String kind, ConfigDef.ConfigKey key, String last) {
        System.out.println(String.join("\t", kind, key.name, key.type.name().toLowerCase(), text(key),
            key.validator == null ? "" : escape(key.validator), key.importance.name().toLowerCase(), last));
    }

    public static void main(String[] arguments) {
        Map<String, String> modes = kafka.server.DynamicBrokerConfig$.MODULE$.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(CollectionConverters.asJava(kafka.server.KafkaConfig$.MODULE$.configKeys())).values()) {
            line("broker", key, modes.getOrDefault(key.name, "read-only"));
            var synonyms = CollectionConverters.asJava(
                kafka.server.DynamicBrokerConfig$.MODULE$.brokerConfigSynonyms(key.name, false));
            System.out.println("synonyms\t" + key.name + "\t" + String.join(",", synonyms));
        }
        var files = CollectionConverters.asJava(kafka.server.KafkaConfig$.MODULE$.configKeys());
        var dynamic = kafka.server.DynamicConfig.Broker$.MODULE$.brokerConfigDef().configKeys();
        for (ConfigDef.ConfigKey key : new TreeMap<>(dynamic).values()) {
            if (!files.containsKey(key.name)) line("dynamic", key, "");
        }
        var topics = CollectionConverters.asJava(kafka.log.LogConfig$.MODULE$.TopicConfigSynonyms());
        ConfigDef definitions = kafka.log.LogConfig$.MODULE$.configDefCopy();
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            line("topic", key, topics.getOrDefault(key.name, ""));
        }
    }
}
