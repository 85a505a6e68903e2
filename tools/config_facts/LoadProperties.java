import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/** Reads a JSON list of texts, prints what java.util.Properties makes of each: a map, or null where it throws. */
public class LoadProperties {
    public static void main(String[] a) throws Exception {
        ObjectMapper json = new ObjectMapper();
        List<Map<Object, Object>> out = new ArrayList<>();
        for (Object text : json.readValue(System.in, List.class)) {
            Properties properties = new Properties();
            try {
                properties.load(new StringReader((String) text));
                out.add(new TreeMap<>(properties));
            } catch (IllegalArgumentException e) {
                out.add(null);
            }
        }
        json.writeValue(System.out, out);
    }
}
