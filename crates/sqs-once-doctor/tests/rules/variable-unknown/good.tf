locals {
  environment = { SQS_ONCE_SERVICE = "charges", ONCE_TABEL = "keys" }
}
