// Numbers as the terminal writes them (crates/analysis/src/text.rs): three digits, IEC units.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Three significant digits. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size < 9.995) return value.toFixed(2);
  return size < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

export function bytes(value: number): string {
  const sign = value < 0 ? "-" : "";
  const size = Math.abs(value);
  if (size < 1024) return `${sign}${Math.round(size)} B`;
  let scaled = size / 1024;
  let unit = 0;
  while (scaled >= 999.5 && unit + 1 < UNITS.length) {
    scaled /= 1024;
    unit += 1;
  }
  return `${sign}${digits(scaled)} ${UNITS[unit]}`;
}

export function signed(value: number): string {
  return value < 0 ? bytes(value) : `+${bytes(value)}`;
}

export function duration(seconds: number): string {
  const size = Math.abs(seconds);
  const sign = seconds < 0 ? "-" : "";
  if (size < 1e-9) return "0 s";
  if (size < 0.9995) return `${sign}${(size * 1000).toFixed(0)} ms`;
  if (size < 59.95) return `${sign}${digits(size)} s`;
  const whole = Math.round(size);
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86400) return `${sign}${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} m`;
  return `${sign}${Math.floor(whole / 86400)} d ${two((whole % 86400) / 3600)} h`;
}

export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function percent(share: number): string {
  const value = share * 100;
  return value !== 0 && Math.abs(value) < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

/** Ticks at powers of two, so that their labels are round. */
export function byteTicks(high: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(high / 5, 1)));
  const ticks = [];
  for (let tick = 0; tick <= high && ticks.length < 50; tick += step) ticks.push(tick);
  return ticks;
}
