// The prefixes of a beam search: each is read from its node up to the root. Numbers in arrays side by side.
const ROOT = -1; // symbol of the empty prefix
const NONE = -1;
const FIRST_SIZE = 1 << 12; // nodes; more room is made where it is needed
const NAMES = ["parent", "symbol", "child", "sibling", "entry", "seen"];

export class Tree {
  constructor() {
    for (const name of NAMES) this[name] = new Int32Array(FIRST_SIZE);
    this.count = 0;
    this.add(NONE, ROOT);
  }

  add(parent, symbol) {
    const node = this.count++;
    if (node === this.symbol.length) this.grow();
    this.parent[node] = parent;
    this.symbol[node] = symbol;
    this.child[node] = this.seen[node] = NONE; // the newest child; the frame in which it was entry `entry` of the beam
    this.sibling[node] = parent === NONE ? NONE : this.child[parent]; // the next older
    if (parent !== NONE) this.child[parent] = node;
    return node;
  }

  grow() {
    for (const name of NAMES) {
      const larger = new Int32Array(2 * this[name].length);
      larger.set(this[name]);
      this[name] = larger;
    }
  }

  // The child of a node for a symbol; it is created if it does not exist.
  under(parent, symbol) {
    for (let node = this.child[parent]; node !== NONE; node = this.sibling[node]) {
      if (this.symbol[node] === symbol) return node;
    }
    return this.add(parent, symbol);
  }

  // The symbols of a prefix.
  path(node) {
    const symbols = [];
    for (; this.parent[node] !== NONE; node = this.parent[node]) symbols.push(this.symbol[node]);
    return symbols.reverse();
  }

  // Drops all nodes above which there is none of the first `count` numbers in `nodes`; writes their new numbers there.
  tidy(nodes, count) {
    const { parent, symbol, count: before } = this;
    const renumbered = new Int32Array(before).fill(NONE);
    for (let i = 0; i < count; i++) {
      for (let node = nodes[i]; node !== NONE && renumbered[node] === NONE; node = parent[node]) renumbered[node] = 0;
    }
    for (const name of NAMES) this[name] = new Int32Array(FIRST_SIZE);
    this.count = 0;
    for (let node = 0; node < before; node++) { // parents precede their children
      if (renumbered[node] !== NONE) renumbered[node] = this.add(node === 0 ? NONE : renumbered[parent[node]], symbol[node]);
    }
    for (let i = 0; i < count; i++) nodes[i] = renumbered[nodes[i]];
  }
}
