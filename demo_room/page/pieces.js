// Messages that were too long for one packet come in pieces; this joins them.

export class Pieces {
  #pieces = new Map();

  // A whole message is given back as it is, a piece that completes one as that one, any other piece as null.
  join(message) {
    if (message.type !== "chunk") return message;
    const { id, index, count, data } = message;
    const pieces = this.#pieces.get(id) ?? [];
    pieces[index] = data;
    this.#pieces.set(id, pieces);
    if (pieces.filter((piece) => piece !== undefined).length < count) return null;
    this.#pieces.delete(id);
    return JSON.parse(pieces.join(""));
  }
}
