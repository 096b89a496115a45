/** Ask, keep the last answer while asking again, and report what went wrong. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused } from "./api.ts";

export interface Query<Answer> {
  data?: Answer;
  error?: Refused;
  loading: boolean;
  name?: string | null; // of what was answered last
}

/** The event that tells the whole page that nobody is signed in any more. */
export const SIGNED_OUT = "faintly-signed-out";

/** Return the answer for a name; another name asks again. With `every`, ask again after so many seconds. */
export function useAsk<Answer>(
  name: string | null,
  asking: (signal: AbortSignal) => Promise<Answer>,
  every = 0,
): Query<Answer> {
  const [state, set] = useState<Query<Answer>>({ loading: true });
  const latest = useRef(asking);
  latest.current = asking;
  useEffect(() => {
    if (name === null) return;
    const stop = new AbortController();
    let timer = 0;
    const again = (seconds: number) => {
      timer = window.setTimeout(() => (document.hidden ? again(seconds) : run()), 1000 * seconds);
    };
    const run = async () => {
      set((old) => ({ ...old, loading: true }));
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) set({ data, loading: false, name });
        if (every) again(every);
      } catch (error) {
        if (stop.signal.aborted) return;
        const refused =
          error instanceof Refused ? error : new Refused(0, "PAGE", "This page failed.", String(error));
        if (refused.status === 401) dispatchEvent(new Event(SIGNED_OUT));
        set((old) => ({ ...(old.name === name ? old : {}), error: refused, loading: false, name }));
        // The answer may be there soon: a seal, a restart, a network that comes back.
        if (every || [0, 409, 429, 503].includes(refused.status)) again(Math.max(every, 3));
      }
    };
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [name, every]);
  return state;
}
