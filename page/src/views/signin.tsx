/** Signing in: the credential is exchanged for a cookie, and kept nowhere here. */
import { useRef, useState } from "preact/hooks";
import { ask, Refused } from "../api.ts";
import { Heading, Trouble } from "../parts.tsx";

export function SignIn({ done }: { done: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    const credential = field.current!.value.trim();
    if (!credential) return field.current!.focus();
    setBusy(true);
    try {
      await ask("session", { body: { credential } });
      done();
    } catch (failed) {
      setError(failed as Refused);
      setBusy(false);
    }
  };
  return (
    <form class="card signin" onSubmit={send}>
      <Heading title="Sign in">Sign in</Heading>
      <label for="credential">A credential to read</label>
      <input id="credential" ref={field} type="password" autocomplete="current-password" spellcheck={false} required />
      <button type="submit" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</button>
      {error && <Trouble error={error} />}
      <p class="soft small">
        Whoever runs the collector can make one: <code>faintly credential add NAME --role read</code>
      </p>
    </form>
  );
}
