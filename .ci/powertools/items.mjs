// Writes the items of this version of Powertools for TypeScript as lines of JSON, during an invocation and after it.
// `python3 .ci/powertools.py --write-items` runs it with each version in the tests.
import { readFileSync } from 'node:fs';
import { DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

const tableName = 'idempotency';
const client = new DynamoDBClient({ endpoint: process.env.AWS_ENDPOINT_URL_DYNAMODB });
const items = async () => (await client.send(new ScanCommand({ TableName: tableName, ConsistentRead: true }))).Items;
const installed = JSON.parse(readFileSync('node_modules/@aws-lambda-powertools/idempotency/package.json'));
const layer = () => new DynamoDBPersistenceLayer({ tableName, awsSdkV3Client: client });

const write = async (name, result, { hasContext = true, ...options } = {}) => {
  const seen = new Set((await items()).map((item) => item.id.S));
  const item = async () => (await items()).find((item) => !seen.has(item.id.S));
  const config = new IdempotencyConfig({ eventKeyJmesPath: 'order_id', ...options });
  let during;
  const handler = makeIdempotent(
    async () => {
      during = await item();
      return result;
    },
    { persistenceStore: layer(), config },
  );
  if (hasContext) config.registerLambdaContext({ getRemainingTimeInMillis: () => 20_000 });
  const at = Date.now();
  await handler({ order_id: name });
  const by = `${installed.name} ${installed.version}`;
  console.log(JSON.stringify({ by, case: name, at_ms: at, in_progress: during, completed: await item() }));
};

await write('plain', { ok: true });
await write('no result', null);
await write('no context', { ok: true }, { hasContext: false });
await write('validated', { ok: true }, { payloadValidationJmesPath: 'order_id' });
