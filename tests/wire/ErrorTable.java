import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints every error of this release: code, name, whether a client may try again. */
public class ErrorTable {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            if (error != Errors.NONE)
                System.out.println(error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException));
        }
    }
}
