// Numbers out of numbers.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The value that the share `part` (0 to 1) of the sorted `values` do not exceed. */
export function percentile(sorted, part) {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)];
}

/** Rounded to so many significant digits; more would only look exact. */
export function rounded(value, digits = 3) {
  return value === undefined || !Number.isFinite(value) ? undefined : Number(value.toPrecision(digits));
}
