/** One frame of a stream of server-sent events. */
export interface Frame {
  /** Null for a frame that is not stored, such as a part of a text. */
  id: string | null;
  data: string;
}

/**
 * Yield the frames of a stream as they arrive. The end of the stream may cut off a frame, which is
 * dropped. `onChunk` is called for each piece that arrives, comments included.
 */
export async function* readFrames(
  stream: ReadableStream<Uint8Array>,
  onChunk: () => void,
): AsyncGenerator<Frame> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let id: string | null = null;
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onChunk();
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line))) {
        if (line === "") {
          if (data.length > 0) yield { id, data: data.join("\n") };
          id = null;
          data = [];
        } else if (line.startsWith("id:")) id = line.slice(3).trimStart();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
