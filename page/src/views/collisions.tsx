/** What a key of an open universe may be mistaken for, computed here from the public plan. */
import { publicMap } from "../../../clients/js/src/hashing.ts";
import { type Plan, readPlan } from "../../../clients/js/src/plan.ts";
import { idOf } from "../../../clients/js/src/vector.ts";
import { call, pathOf } from "../api.ts";
import { count } from "../format.ts";
import { Answer, Name } from "../parts.tsx";
import { useAsk } from "../query.ts";

/** Return, for each pair of keys that ever share a cell, in how many of the plan's maps they do. */
export function sharing(plan: Plan, keys: string[]): { one: string; other: string; maps: number }[] {
  const ids = keys.map((key) => idOf(plan, key)!);
  const maps = Array.from({ length: plan.maps }, (_, number) => publicMap(plan, number));
  const codes = ids.map((id) => maps.map((map) => map.code(id)));
  return keys.flatMap((one, i) =>
    keys.slice(i + 1).flatMap((other, j) => {
      const same = codes[i].filter((code, map) => code === codes[i + 1 + j][map]).length;
      return same ? [{ one, other, maps: same }] : [];
    }),
  );
}

export function Collisions({ digest, keys }: { digest: string; keys: string[] }) {
  const asked = useAsk(digest, async (signal) => readPlan(await (await call(`${pathOf(digest)}/plan`, { signal })).text()));
  return (
    <details class="collisions">
      <summary>What may these keys be mistaken for?</summary>
      <Answer asked={asked}>{(plan) => (plan.family === "linear" ? <Maps plan={plan} keys={keys} /> : <Direct />)}</Answer>
    </details>
  );
}

function Direct() {
  return (
    <p>
      Every report hashes keys with its own seed, so no two keys always collide. Other keys add noise to a key, which
      its interval includes, and none can be mistaken for it.
    </p>
  );
}

function Maps({ plan, keys }: { plan: Plan; keys: string[] }) {
  const cells = 2 ** plan.bits;
  const found = sharing(plan, keys);
  return (
    <>
      <p>
        Any text may be a key, and there are more texts than cells. The plan has {count(plan.maps)} public maps, each of
        which puts a key into one of {count(cells)} cells. Another key falls into the same cell of a map once in{" "}
        {count(cells)} times. In that map, and in no other, its reports count for both.
      </p>
      <p>
        So a rare key may gain from a frequent one in a single map. An estimate averages over all maps,
        and a key stands out only if its maps agree. Where one map reads far more than the others, the row says that its
        maps disagree.
      </p>
      {keys.length > 1 && (found.length === 0 ? (
        <p><strong>The {count(keys.length)} keys above share no cell in any map.</strong></p>
      ) : (
        <ul>
          {found.map(({ one, other, maps }) => (
            <li key={`${one}\n${other}`}>
              <Name of={one} longest={40} /> and <Name of={other} longest={40} /> share a cell in {maps} of {plan.maps} maps.
            </li>
          ))}
        </ul>
      ))}
    </>
  );
}
