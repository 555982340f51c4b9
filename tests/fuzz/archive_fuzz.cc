// Goal: a damaged or hostile .pt2 archive is refused in one line; what is accepted is a graph that
// verifies.
// Method: the bundled archives of both layouts, damaged anywhere: in the directory, in the JSON, in
// the tensors.
#include "clients/pt2/archive/archive.h"
#include "clients/pt2/translate.h"
#include "common/base/check.h"
#include "common/base/files.h"
#include "common/ir/hlir/verify.h"
#include "tests/fuzz/fuzz.h"
#include "tests/paths/paths.h"

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"/pt2/mlp.pt2", "/pt2/torch-2.6/mlp.pt2"}) {
    auto content = common::read_file(paths::fixtures() + name);
    LFARM_CHECK(content.ok(), content.error().message);
    seeds.push_back(std::move(*content));
  }
  return seeds;
}

size_t fuzz::heap_bytes_max() { return size_t{256} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto program = clients::open_pt2(bytes, nullptr, "fuzz.pt2");
  if (!program.ok()) {
    LFARM_CHECK(program.error().message.find('\n') == std::string::npos, "more than one line");
    return;
  }
  auto model = clients::translate(*program);
  if (!model.ok()) return;
  common::Status verified = common::verify(model->graph);
  LFARM_CHECK(verified.ok(), verified.error().message);
}
