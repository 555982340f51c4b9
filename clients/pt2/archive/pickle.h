// A restricted unpickler: reads what torch.save writes for tensors and runs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clients/pt2/archive/limits.h"
#include "clients/pt2/archive/scalar_type.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace clients {

// Index of an object in Pickle::objects. Objects refer to each other by index, so a pickle that
// refers to itself is harmless.
using PickleRef = uint32_t;

enum class PickleKind : uint8_t {
  kNone,
  kBool,     // integer
  kInt,      // integer
  kFloat,    // number
  kText,     // text
  kBytes,    // text
  kTuple,    // items
  kList,     // items
  kDict,     // pairs, in order of insertion; keys may repeat
  kGlobal,   // text: "module name", one of the few that are allowed
  kStorage,  // text: the storage's key; dtype; integer: elements
  kTensor,   // items[0]: storage, sizes, strides, integer: offset in elements; dtype
};

struct PickleObject {
  PickleKind kind = PickleKind::kNone;
  ScalarType dtype = ScalarType::kUnknown;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<PickleRef> items;
  std::vector<std::pair<PickleRef, PickleRef>> pairs;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct Pickle {
  std::vector<PickleObject> objects;
  PickleRef root = 0;
  const PickleObject& operator[](PickleRef ref) const { return objects[ref]; }
};

// Reads pickle protocols 2 to 4. Builds None, booleans, numbers, strings, bytes, tuples, lists,
// dicts, OrderedDict, torch.Size, torch storages and tensors; a parameter is its tensor. Any other
// global or opcode is refused by name (kInvalidInput); damaged bytes are kCorrupt.
common::Result<Pickle> read_pickle(common::ByteView bytes, const Pt2Limits& limits = {});

}  // namespace clients
