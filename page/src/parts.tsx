/** Small pieces that all views share. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Key, Refused } from "./api.ts";
import type { Query } from "./query.ts";
import { visible } from "./format.ts";

/** A key or a name, as text and nothing else, whichever way it runs. */
export function Name({ of, longest }: { of: Key; longest?: number }) {
  const text = visible(of, longest);
  const long = String(of).length > 300;
  return (
    <bdi class="name" title={text === String(of) ? undefined : visible(of, 500)}>
      {text}
      {long && <small> ({String(of).length.toLocaleString("en")} characters)</small>}
    </bdi>
  );
}

/** The heading of a view; it has the focus when the view opens, so that a screen reader begins there. */
export function Heading({ title, children }: { title: string; children: ComponentChildren }) {
  const place = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = title ? `${visible(title, 60)} · faintly` : "faintly";
    place.current!.focus({ preventScroll: true });
  }, [title]);
  return (
    <h1 ref={place} tabIndex={-1}>
      {children}
    </h1>
  );
}

export function Card({ title, tools, children, id }: {
  title: string;
  tools?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}) {
  return (
    <section class="card" id={id} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </section>
  );
}

export function Figure({ label, children, note, id }: {
  label: string;
  children: ComponentChildren;
  note?: ComponentChildren;
  id?: string;
}) {
  return (
    <div class="figure" id={id}>
      <dt>{label}</dt>
      <dd>
        {children}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

export function Trouble({ error }: { error: Refused }) {
  return (
    <div class="trouble" role="alert">
      <p>{error.message.replace(/^./, (letter) => letter.toUpperCase())}</p>
      <p class="soft">{error.hint}</p>
      <small class="soft">{error.code}</small>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>{title}</p>
      <div class="soft">{children}</div>
    </div>
  );
}

/** Lines where an answer will stand. */
export function Waiting({ lines = 3 }: { lines?: number }) {
  return (
    <div class="waiting" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} />
      ))}
    </div>
  );
}

/** What an asked thing shows: lines while it is new, the error if there is no answer, else the answer. */
export function Answer<Data>({ asked, children, lines }: {
  asked: Query<Data>;
  children: (data: Data) => ComponentChildren;
  lines?: number;
}) {
  const { data, error } = asked;
  if (data === undefined) return error ? <Trouble error={error} /> : <Waiting lines={lines} />;
  return (
    <>
      {error && <Trouble error={error} />}
      {children(data)}
    </>
  );
}
