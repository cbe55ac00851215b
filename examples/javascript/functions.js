// The functions that worker.js serves, each under its name. Values are JSON; keyword arguments are one object, the last argument.

export function area(width, height, { unit = "m" } = {}) {
  return { value: width * height, unit: `${unit}²` };
}

export function primes(below) {
  const isComposite = new Uint8Array(below);
  const found = [];
  for (let number = 2; number < below; number++) {
    if (isComposite[number]) continue;
    found.push(number);
    for (let multiple = number * number; multiple < below; multiple += number) isComposite[multiple] = 1;
  }
  return found;
}

export function echo(...values) {
  return values;
}

export async function pause(milliseconds, value = null) {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  return value;
}

export function spin(milliseconds) {
  const ends = Date.now() + milliseconds;
  while (Date.now() < ends);
  return milliseconds;
}

export function fail(text) {
  throw new RangeError(text);
}

export function exit(code) {
  process.exit(code);
}
