import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;

/** For every line "key side version hex" of the input: reads the message as a 2.7 broker or client does, and prints it written again. */
public class RoundTrip {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ", -1);
            output.append(again(Short.parseShort(parts[0]), parts[1].equals("request"), Short.parseShort(parts[2]), parts[3]));
            output.append('\n');
        }
        System.out.print(output);
    }

    private static String again(short key, boolean isRequest, short version, String hex) {
        try {
            ApiMessageType type = ApiMessageType.fromApiKey(key);
            Schema schema = (isRequest ? type.requestSchemas() : type.responseSchemas())[version];
            ByteBuffer buffer = ByteBuffer.wrap(bytes(hex));
            Struct read = schema.read(buffer);
            if (buffer.hasRemaining())
                return "left: " + buffer.remaining();
            ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
            message.fromStruct(read, version);
            Struct written = message.toStruct(version);
            ByteBuffer result = ByteBuffer.allocate(written.sizeOf());
            written.writeTo(result);
            return hex(result.array());
        } catch (RuntimeException e) {
            return "refused: " + e;
        }
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++)
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return bytes;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes)
            text.append(String.format("%02x", b));
        return text.toString();
    }
}
