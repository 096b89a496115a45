import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import "./style.css";
import { activity, ask } from "./api.ts";
import { useAddress, write } from "./address.ts";
import { Empty, Heading } from "./parts.tsx";
import { SIGNED_OUT, useAsk } from "./query.ts";
import { Collection } from "./views/collection.tsx";
import { Collections } from "./views/collections.tsx";
import { HealthView } from "./views/health.tsx";
import { PlanView } from "./views/plan.tsx";
import { SignIn } from "./views/signin.tsx";

const REFRESH_S = 5;

function App() {
  const [role, setRole] = useState<string | null | "out">(null);
  const who = useCallback(() => ask<{ role: string | null }>("session").then((told) => setRole(told.role), () => {}), []);
  useEffect(() => {
    who();
    const out = () => setRole("out");
    addEventListener(SIGNED_OUT, out);
    return () => removeEventListener(SIGNED_OUT, out);
  }, []);
  const leave = () => ask("session", { method: "DELETE" }).then(() => setRole("out"), () => {});
  const { parts } = useAddress();
  const here = (name: string) => ((parts[0] ?? "") === name ? "page" : undefined);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("h1")?.focus())}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={write([])}>faintly</a>
        {role !== "out" && (
          <nav aria-label="Views">
            <a href={write([])} aria-current={here("")}>Collections</a>
            <a href={write(["health"])} aria-current={here("health")}>Health</a>
            {role !== null && <button type="button" class="plain" onClick={leave}>Sign out</button>}
          </nav>
        )}
      </header>
      <main id="main">{role === "out" ? <SignIn done={who} /> : <View />}</main>
      <footer class="soft small">
        <a href="docs">HTTP interface</a> <span>Noise is added on the devices. Nobody here sees what a person holds.</span>
      </footer>
    </>
  );
}

function View() {
  const { parts, query } = useAddress();
  const asked = useAsk("activity", activity, REFRESH_S);
  const [first, digest, last] = parts;
  if (first === undefined) return <Collections asked={asked} />;
  if (first === "health" && parts.length === 1) return <HealthView asked={asked} />;
  if (first === "c" && digest && last === "plan") return <PlanView key={digest} digest={digest} />;
  if (first === "c" && digest && last === undefined) return <Collection key={digest} digest={digest} query={query} asked={asked} />;
  return (
    <>
      <Heading title="Not found">Not found</Heading>
      <Empty title="This address shows nothing."><a href={write([])}>All collections</a></Empty>
    </>
  );
}

const place = document.getElementById("app")!;
place.replaceChildren();
render(<App />, place);
