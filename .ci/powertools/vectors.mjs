// Reads cases, `[{"data": …, "expression": …, "prefix": …}, …]`, and writes the ids that the real library makes from them.
import { readFileSync } from 'node:fs';
import { IdempotencyConfig } from '@aws-lambda-powertools/idempotency';
import { BasePersistenceLayer } from '@aws-lambda-powertools/idempotency/persistence';

class Ids extends BasePersistenceLayer {
  id(data) {
    return this.getHashedIdempotencyKey(data);
  }
}

const ids = JSON.parse(readFileSync(0, 'utf8')).map(({ data, expression, prefix }) => {
  const layer = new Ids();
  layer.configure({ config: new IdempotencyConfig({ eventKeyJmesPath: expression }), keyPrefix: prefix });
  return layer.id(data);
});
console.log(JSON.stringify(ids));
