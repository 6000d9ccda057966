// Drives a running server with both generations of the TypeScript SDK.
//
// usage: node clients.mjs URL [TOKEN]
//
// Exit code 0: each client listed two tools, called both, read a hit as a resource, got
// an error for what is wrong, and found both spellings of the path.

import assert from "node:assert/strict";
import * as v2 from "@modelcontextprotocol/client";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as V1Transport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const requestInit = token ? { headers: { Authorization: `Bearer ${token}` } } : {};
const identity = { name: "docs-rag-interop", version: "1.0.0" };

async function use(name, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), ["retrieve", "corpus_status"]);
  for (const tool of tools) {
    assert.equal(tool.annotations.readOnlyHint, true);
    assert.equal(tool.inputSchema.additionalProperties, false);
  }

  const question = { query: "the fuse of the lamp is blown", k: 2 };
  const answer = await client.callTool({ name: "retrieve", arguments: question });
  assert.ok(!answer.isError, JSON.stringify(answer.content));
  const [hit] = answer.structuredContent.hits;
  assert.equal(hit.path, "docs/lamps.md");
  assert.ok(answer.content[0].text.includes(hit.text));

  const status = await client.callTool({ name: "corpus_status", arguments: {} });
  assert.equal(status.structuredContent.corpus, "harbour");

  const { contents } = await client.readResource({ uri: hit.id });
  assert.ok(contents[0].text.includes("fuse of the lamp"));
  const { resources } = await client.listResources();
  assert.equal(resources.length, 2);
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.equal(resourceTemplates.length, 1);

  const wrong = await client.callTool({ name: "retrieve", arguments: { query: "x", k: 99 } });
  assert.equal(wrong.isError, true);
  await assert.rejects(client.readResource({ uri: "docs-rag://harbour/../x" }), { code: -32602 });
  await assert.rejects(client.callTool({ name: "search", arguments: {} }), { code: -32602 });
  await client.close();
  console.log(`ok: ${name}`);
}

for (const address of [url, `${url}/`]) {
  const transport = new V1Transport(new URL(address), { requestInit });
  await use(`TypeScript SDK v1 at ${address}`, new V1Client(identity), transport);
}
for (const mode of ["legacy", "auto"]) {
  const client = new v2.Client(identity, { versionNegotiation: { mode } });
  const transport = new v2.StreamableHTTPClientTransport(new URL(url), { requestInit });
  await use(`TypeScript SDK v2, ${mode}`, client, transport);
}
