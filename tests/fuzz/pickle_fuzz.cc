// Goal: a state dict from anywhere builds tensors or is refused; it never runs, hangs or crashes.
// Method: hand-written pickles of plain values and of tensors, damaged; every reference of what was
// built must lie inside it.
#include "clients/pt2/archive/pickle.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz.h"

std::vector<std::string> fuzz::seeds() {
  using std::string_literals::operator""s;
  return {
      "\x80\x04}X\x01\0\0\0a(K\x01J\xfe\xff\xff\xffM\x2c\x01G\x40\x04\0\0\0\0\0\0N\x88]C\x01xats."s,
      "\x80\x02"
      "ctorch._utils\n_rebuild_parameter\n"
      "(ctorch._utils\n_rebuild_tensor_v2\n"
      "((X\x07\0\0\0storagectorch\nBFloat16Storage\nX\x01\0\0\0"
      "7X\x03\0\0\0cpuK\x0ctQK\x02K\x03K\x02\x86K\x02K\x01\x86\x89"
      "ccollections\nOrderedDict\n)RtR\x88"
      "ccollections\nOrderedDict\n)RtR."s,
      "\x80\x02}q\x00(X\x01\0\0\0wq\x01K\x05h\x01K\x06u."s,
  };
}

size_t fuzz::heap_bytes_max() { return size_t{64} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto pickle = clients::read_pickle(bytes);
  if (!pickle.ok()) return;
  const size_t count = pickle->objects.size();
  LFARM_CHECK(pickle->root < count, "the root is no object");
  for (const clients::PickleObject& object : pickle->objects) {
    for (clients::PickleRef ref : object.items) LFARM_CHECK(ref < count, "a dangling item");
    for (const auto& pair : object.pairs) {
      LFARM_CHECK(pair.first < count && pair.second < count, "a dangling pair");
    }
  }
}
