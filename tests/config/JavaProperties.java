// Reads properties files, as UTF-8, with Java's own parser: prints KEY<tab>VALUE of each entry, both as hexadecimal UTF-16.
// Each argument is one file; a line `-` ends each file's entries.
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.TreeSet;

public class JavaProperties {
    static String hex(String text) {
        StringBuilder result = new StringBuilder();
        for (char unit : text.toCharArray()) result.append(String.format("%04x", (int) unit));
        return result.toString();
    }

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (InputStreamReader reader = new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8)) {
                properties.load(reader);
            }
            for (String key : new TreeSet<>(properties.stringPropertyNames()))
                System.out.println(hex(key) + "\t" + hex(properties.getProperty(key)));
            System.out.println("-");
        }
    }
}
