// Goal: files that people edit or that lie around for years (allow-lists, key files, known farms,
// role and key texts) are read soundly or refused in one line.
// Method: one of each, damaged, given to all readers; what an allow-list says must survive being
// written and read again.
#include "clients/runtime/farm/known_farms.h"
#include "common/base/check.h"
#include "common/wire/security.h"
#include "tests/fuzz/fuzz.h"

namespace {

// Of a fixed pair, so that inputs are the same on every machine.
constexpr const char* kPublic = "v3znwzdDjuDrvN3GK=$!+/MGVCH<x}*K&&yYpNy?";
constexpr const char* kSecret = ">IP7$mz&2cYi67zv>khAeQoIR/l9^sGBV{77<lGK";
constexpr const char* kEndpoint = "tcp://farm:7070";

void check_message(const common::Error& error) {
  LFARM_CHECK(!error.message.empty() && error.message.find('\n') == std::string::npos,
              "an error is one line");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::string key(64, 'a');
  return {
      std::string(kPublic) + " team submit,read\n# who\n" + kSecret + " other worker,admin # x\n",
      "tenant team quota=3600 share=other,third\ntenant other share=farm\n",
      std::string("public ") + kPublic + "\nsecret " + kSecret + "\n",
      std::string("# met\n") + kEndpoint + " " + key + "\nipc:///run/farm " + key + "\n",
      key,
      "submit,read,worker,admin",
      kPublic};
}

size_t fuzz::heap_bytes_max() { return size_t{8} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  std::string text(common::as_text(bytes));
  auto list = common::AllowList::parse(text);
  if (!list.ok()) check_message(list.error());
  if (list.ok()) {
    auto again = common::AllowList::parse(list->text());
    LFARM_CHECK(again.ok() && again->text() == list->text(), "the allow-list changed");
    LFARM_CHECK(again->size() == list->size(), "the allow-list lost an entry");
    LFARM_CHECK(again->policies() == list->policies(), "a tenant's policy changed");
  }
  auto pair = common::parse_key_pair(text, "keys");
  if (pair.ok()) {
    LFARM_CHECK(common::check_curve_key(pair->public_key, "key").ok(), "a pair without a key");
  } else {
    check_message(pair.error());
  }
  auto known = clients::parse_known_farms(text, "known_farms");
  if (!known.ok()) check_message(known.error());
  auto key = clients::parse_signing_key(text, "the key");
  LFARM_CHECK(!key.ok() || text.size() == 64, "a signing key of another length");
  if (auto roles = common::parse_roles(text)) {
    LFARM_CHECK(common::parse_roles(common::roles_text(*roles)) == roles, "roles changed");
  }
  bool is_key = common::check_curve_key(text, "key").ok();
  LFARM_CHECK(!is_key || text.size() == 40, "a CURVE key of another length");
}
