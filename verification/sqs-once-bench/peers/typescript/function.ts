// Powertools for AWS Lambda (TypeScript): its idempotency and batch utilities, as their documentation
// shows them. Records run in parallel. The runtime below has one connection and no extras.

import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import http from 'node:http';

type Order = { order_id: string };

const work = Number(process.env.BENCH_HANDLER_MS);
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.BENCH_TABLE! });
const config = new IdempotencyConfig({
  eventKeyJmesPath: 'order_id',
  expiresAfterSeconds: 28 * 24 * 60 * 60,
  useLocalCache: process.env.BENCH_CACHED === '1',
});
const processor = new BatchProcessor(EventType.SQS);

const charge = makeIdempotent(
  async (_order: Order) => {
    if (work > 0) await new Promise((resolve) => setTimeout(resolve, work));
  },
  { persistenceStore, config },
);

const handleRecord = async (record: { body: string }) => {
  await charge(JSON.parse(record.body));
};

const handler = async (event: any, context: any) => {
  config.registerLambdaContext(context);
  return processPartialResponse(event, handleRecord as any, processor, { context });
};

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const base = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;

const call = (method: string, path: string, body?: string) =>
  new Promise<{ headers: http.IncomingHttpHeaders; body: string }>((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
    const request = http.request(base + path, { method, agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ headers: response.headers, body: Buffer.concat(chunks).toString() }),
      );
    });
    request.on('error', reject);
    request.end(body);
  });

const run = async () => {
  for (;;) {
    const next = await call('GET', '/next');
    const id = next.headers['lambda-runtime-aws-request-id'];
    const deadline = Number(next.headers['lambda-runtime-deadline-ms']);
    const context = {
      functionName: 'bench',
      awsRequestId: id,
      getRemainingTimeInMillis: () => deadline - Date.now(),
    };
    const answer = await handler(JSON.parse(next.body), context);
    await call('POST', `/${id}/response`, JSON.stringify(answer));
  }
};

run();
