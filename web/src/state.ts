// What the reader has chosen, kept in the URL's fragment so that a link shows the same: `#allocs&t=1.5-9&f=live`.

export interface State {
  view: string;
  /** Chosen stretch of time. */
  from: number | null;
  to: number | null;
  mode: string;
  /** What compared runs lie along. */
  by: string;
  figure: number;
  shape: string;
  search: string;
  theme: string;
}

const EMPTY: State = {
  view: "", from: null, to: null, mode: "tree", by: "", figure: 0, shape: "callers", search: "", theme: "",
};

type Listener = (state: State, changed: Set<keyof State>) => void;

const listeners: Listener[] = [];
export const state: State = { ...EMPTY };

export function onChange(listener: Listener): void {
  listeners.push(listener);
}

/** Changes what is given, tells everybody, and writes the fragment. */
export function change(part: Partial<State>): void {
  const changed = new Set<keyof State>();
  for (const key of Object.keys(part) as (keyof State)[]) {
    if (state[key] !== part[key]) changed.add(key);
  }
  if (changed.size === 0) return;
  Object.assign(state, part);
  for (const listener of listeners) listener(state, changed);
  const fragment = `#${write(state)}`;
  if (location.hash !== fragment) location.replace(fragment);
}

export function write(from: State): string {
  const words = [from.view];
  const add = (key: string, value: string) => words.push(`${key}=${encodeURIComponent(value)}`);
  if (from.from !== null && from.to !== null) add("t", `${from.from.toFixed(3)}..${from.to.toFixed(3)}`);
  if (from.mode !== EMPTY.mode) add("m", from.mode);
  if (from.by !== EMPTY.by) add("by", from.by);
  if (from.figure !== EMPTY.figure) add("f", String(from.figure));
  if (from.shape !== EMPTY.shape) add("s", from.shape);
  if (from.search !== "") add("q", from.search);
  if (from.theme !== "") add("theme", from.theme);
  return words.join("&");
}

export function read(fragment: string): State {
  const [view, ...words] = fragment.replace(/^#/, "").split("&");
  const found: State = { ...EMPTY, view };
  for (const word of words) {
    const [key, raw = ""] = word.split("=", 2);
    let value = "";
    try {
      value = decodeURIComponent(raw);
    } catch {
      continue; // somebody cut the link
    }
    const span = /^(-?[\d.]+)\.\.(-?[\d.]+)$/.exec(value);
    if (key === "t" && span) [found.from, found.to] = [Number(span[1]), Number(span[2])];
    else if (key === "m") found.mode = value;
    else if (key === "by") found.by = value;
    else if (key === "f" && /^[0-4]$/.test(value)) found.figure = Number(value);
    else if (key === "s") found.shape = value;
    else if (key === "q") found.search = value;
    else if (key === "theme") found.theme = value;
  }
  return found;
}
