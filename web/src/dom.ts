// Elements with text: never markup, so that no name of a target can become any.

type Attributes = Record<string, string>;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...content: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

/** A colour of the page's theme. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** `i-s3` and `i-rest` are the colours `s3` and `rest`. */
export function inkColor(ink: string): string {
  return color(ink.replace(/^i-/, "").replace(/ .*/, ""));
}

/** A button that shows whether it is on. */
export function toggle(label: string, isOn: boolean, act: () => void): HTMLButtonElement {
  const button = element("button", { type: "button", "aria-pressed": String(isOn) }, label);
  button.addEventListener("click", act);
  return button;
}

/** One of several. */
export function choice(
  label: string,
  options: [string, string][],
  chosen: string,
  act: (value: string) => void,
): HTMLElement {
  const buttons = options.map(([value, text]) => toggle(text, value === chosen, () => act(value)));
  return element("span", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}

/** A canvas as sharp as the screen, cleared, with its drawing context in CSS pixels. */
export function sharpen(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Follows the pointer; one for the whole page. */
const tip = element("div", { class: "tip", role: "status" });

export function showTip(x: number, y: number, lines: string[]): void {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
  tip.style.display = "block";
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(4, Math.min(x + 12, room - tip.offsetWidth - 8)) + window.scrollX}px`;
  tip.style.top = `${y + 16 + window.scrollY}px`;
}

export function hideTip(): void {
  tip.style.display = "none";
}
