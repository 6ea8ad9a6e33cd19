import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;

/**
 * How the driver calls a client whose classes moved between releases, and tells how it went.
 *
 * <p>Each step prints one line, {@code ok NAME} or {@code failed NAME: why}. A step that fails does
 * not stop the others: a refused request is as good an example as a granted one.
 */
final class Calls {
    private static final Map<Class<?>, Class<?>> BOXES =
            Map.of(
                    int.class, Integer.class,
                    long.class, Long.class,
                    boolean.class, Boolean.class);

    private static volatile Exception lastFailure;

    private Calls() {}

    interface Step {
        void run() throws Exception;
    }

    static void step(String name, Step step) {
        try {
            step.run();
            System.out.println("ok " + name);
        } catch (Throwable failure) {
            System.out.println("failed " + name + ": " + failure);
        }
    }

    /** Call a method by its name; the first one that takes these arguments is meant. */
    static Object call(Object target, String name, Object... args) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && takes(method.getParameterTypes(), args)) {
                try {
                    return method.invoke(target, args);
                } catch (InvocationTargetException wrapped) {
                    throw (Exception) wrapped.getCause();
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    /** The value of a private field. */
    static Object field(Object target, String name) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
    }

    /** Set a property whose type is an enum that lives in another package in each release. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setEnum(Object target, String setter, String value) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter)) {
                Class type = method.getParameterTypes()[0];
                method.invoke(target, Enum.valueOf(type, value));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    static void await(String what, BooleanSupplier done) throws Exception {
        long deadline = System.currentTimeMillis() + 30_000;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("waited too long for " + what, lastFailure);
            }
            Thread.sleep(50);
        }
    }

    static long quietly(Callable<Long> value) {
        try {
            return value.call();
        } catch (Exception notYet) {
            lastFailure = notYet;
            return -1;
        }
    }

    private static boolean takes(Class<?>[] wanted, Object[] given) {
        if (wanted.length != given.length) {
            return false;
        }
        for (int i = 0; i < wanted.length; i++) {
            Class<?> type = BOXES.getOrDefault(wanted[i], wanted[i]);
            if (given[i] == null ? wanted[i].isPrimitive() : !type.isInstance(given[i])) {
                return false;
            }
        }
        return true;
    }
}
