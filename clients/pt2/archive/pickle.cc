#include "clients/pt2/archive/pickle.h"

#include <bit>
#include <optional>

#include "common/base/cat.h"

namespace clients {
namespace {

using common::ByteView;
using common::cat;
using common::corrupt;
using common::invalid_input;
using common::Result;
using common::Status;

constexpr size_t kMaxTensorRank = 64;
constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::string_view kTensorV2 = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kTensorV3 = "torch._utils _rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";
constexpr std::string_view kSize = "torch Size";
constexpr std::string_view kUntypedStorage = "torch.storage UntypedStorage";

// Typed storages, which give a tensor its dtype.
struct StorageType {
  std::string_view global;
  ScalarType dtype;
};
constexpr StorageType kStorageTypes[] = {
    {"torch FloatStorage", ScalarType::kFloat32},
    {"torch DoubleStorage", ScalarType::kFloat64},
    {"torch HalfStorage", ScalarType::kFloat16},
    {"torch BFloat16Storage", ScalarType::kBfloat16},
    {"torch LongStorage", ScalarType::kInt64},
    {"torch IntStorage", ScalarType::kInt32},
    {"torch ShortStorage", ScalarType::kInt16},
    {"torch CharStorage", ScalarType::kInt8},
    {"torch ByteStorage", ScalarType::kUint8},
    {"torch BoolStorage", ScalarType::kBool},
    {"torch ComplexFloatStorage", ScalarType::kComplex64},
    {"torch ComplexDoubleStorage", ScalarType::kComplex128},
    {kUntypedStorage, ScalarType::kUint8},
};

std::optional<ScalarType> storage_dtype(std::string_view global) {
  for (const StorageType& row : kStorageTypes) {
    if (row.global == global) return row.dtype;
  }
  return std::nullopt;
}

std::optional<ScalarType> dtype_global(std::string_view global) {
  constexpr std::string_view kPrefix = "torch ";
  if (!global.starts_with(kPrefix)) return std::nullopt;
  return scalar_type_of_name(global.substr(kPrefix.size()));
}

bool global_is_allowed(std::string_view global) {
  return global == kOrderedDict || global == kTensorV2 || global == kTensorV3 ||
         global == kParameter || global == kSize || storage_dtype(global) || dtype_global(global);
}

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNoneValue = 'N',
  kBinPersid = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTupleMark = 't',
  kSetItems = 'u',
  kBinFloat = 'G',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinString = 'T',
  kShortBinString = 'U',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

class Machine {
 public:
  Machine(ByteView bytes, const Pt2Limits& limits) : bytes_(bytes), limits_(limits) {}

  Result<Pickle> run() {
    while (!stopped_) {
      uint64_t opcode = 0;
      LFARM_RETURN_IF_ERROR(number(1, &opcode));
      LFARM_RETURN_IF_ERROR(step(static_cast<uint8_t>(opcode)));
      if (pickle_.objects.size() > limits_.pickle_objects_max ||
          stack_.size() > limits_.pickle_objects_max) {
        return invalid_input(
            cat("the pickle builds more than ", limits_.pickle_objects_max, " objects"));
      }
    }
    return std::move(pickle_);
  }

 private:
  // The opcodes fall into families; each handler returns nothing when the opcode is not its own.
  Status step(uint8_t opcode) {
    if (auto done = scalar_opcode(opcode)) return *done;
    if (auto done = text_opcode(opcode)) return *done;
    if (auto done = container_opcode(opcode)) return *done;
    if (auto done = memo_opcode(opcode)) return *done;
    if (auto done = object_opcode(opcode)) return *done;
    return invalid_input(cat("pickle opcode ", static_cast<int>(opcode), " at byte ", at_ - 1,
                             " is not allowed; save the model with torch.export.save"));
  }

  std::optional<Status> scalar_opcode(uint8_t opcode) {
    switch (opcode) {
      case kNoneValue:
        push({});
        return Status();
      case kNewTrue:
        return push_integer(PickleKind::kBool, 1);
      case kNewFalse:
        return push_integer(PickleKind::kBool, 0);
      case kBinInt:
        return fixed_integer(4);
      case kBinInt1:
        return fixed_integer(1);
      case kBinInt2:
        return fixed_integer(2);
      case kLong1:
        return long_integer();
      case kBinFloat:
        return big_endian_float();
      default:
        return std::nullopt;
    }
  }

  std::optional<Status> text_opcode(uint8_t opcode) {
    switch (opcode) {
      case kShortBinUnicode:
        return push_text(PickleKind::kText, 1);
      case kBinUnicode:
        return push_text(PickleKind::kText, 4);
      case kBinUnicode8:
        return push_text(PickleKind::kText, 8);
      case kShortBinString:
        return push_text(PickleKind::kText, 1);
      case kBinString:
        return push_text(PickleKind::kText, 4);
      case kShortBinBytes:
        return push_text(PickleKind::kBytes, 1);
      case kBinBytes:
        return push_text(PickleKind::kBytes, 4);
      case kBinBytes8:
        return push_text(PickleKind::kBytes, 8);
      default:
        return std::nullopt;
    }
  }

  std::optional<Status> container_opcode(uint8_t opcode) {
    switch (opcode) {
      case kMark:
        if (marks_.size() >= limits_.pickle_depth_max) {
          return Status(
              invalid_input(cat("the pickle nests deeper than ", limits_.pickle_depth_max)));
        }
        marks_.push_back(stack_.size());
        return Status();
      case kEmptyDict:
        return push_kind(PickleKind::kDict);
      case kEmptyList:
        return push_kind(PickleKind::kList);
      case kEmptyTuple:
        return push_kind(PickleKind::kTuple);
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return make_tuple(opcode - kTuple1 + 1);
      case kTupleMark:
        return tuple_from_mark();
      case kAppend:
      case kAppends:
        return append(opcode == kAppends);
      case kSetItem:
      case kSetItems:
        return set_items(opcode == kSetItems);
      default:
        return std::nullopt;
    }
  }

  std::optional<Status> memo_opcode(uint8_t opcode) {
    switch (opcode) {
      case kBinPut:
        return put(1);
      case kLongBinPut:
        return put(4);
      case kMemoize:
        return put(0);
      case kBinGet:
        return get(1);
      case kLongBinGet:
        return get(4);
      case kPop:
        return pop_one();
      case kPopMark:
        return pop_to_mark();
      default:
        return std::nullopt;
    }
  }

  std::optional<Status> object_opcode(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        return protocol();
      case kFrame:
        return skip(8);
      case kStop:
        return stop();
      case kGlobal:
        return global_lines();
      case kStackGlobal:
        return stack_global();
      case kBinPersid:
        return persistent_id();
      case kReduce:
        return reduce();
      case kBuild:
        return build();
      default:
        return std::nullopt;
    }
  }

  Status truncated() const { return corrupt(cat("the pickle ends early, at byte ", at_)); }
  Status malformed(std::string_view what) const {
    return corrupt(cat("the pickle is malformed at byte ", at_, ": ", what));
  }

  Status number(size_t bytes, uint64_t* out) {
    if (bytes > bytes_.size() - at_) return truncated();
    *out = 0;
    for (size_t i = 0; i < bytes; ++i) {
      *out |= static_cast<uint64_t>(bytes_[at_ + i]) << (8 * i);
    }
    at_ += bytes;
    return {};
  }

  Status skip(size_t bytes) {
    if (bytes > bytes_.size() - at_) return truncated();
    at_ += bytes;
    return {};
  }

  PickleRef push(PickleObject object) {
    pickle_.objects.push_back(std::move(object));
    stack_.push_back(static_cast<PickleRef>(pickle_.objects.size() - 1));
    return stack_.back();
  }
  Status push_kind(PickleKind kind) {
    PickleObject object;
    object.kind = kind;
    push(std::move(object));
    return {};
  }
  Status push_integer(PickleKind kind, int64_t value) {
    PickleObject object;
    object.kind = kind;
    object.integer = value;
    push(std::move(object));
    return {};
  }
  Status fixed_integer(size_t bytes) {
    uint64_t value = 0;
    LFARM_RETURN_IF_ERROR(number(bytes, &value));
    return push_integer(PickleKind::kInt,
                        bytes == 4 ? static_cast<int32_t>(value) : static_cast<int64_t>(value));
  }
  Status long_integer() {
    uint64_t length = 0;
    LFARM_RETURN_IF_ERROR(number(1, &length));
    if (length > 8) return invalid_input("the pickle holds an integer of more than 64 bits");
    uint64_t value = 0;
    LFARM_RETURN_IF_ERROR(number(length, &value));
    if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0) {
      value |= ~uint64_t{0} << (8 * length);
    }
    return push_integer(PickleKind::kInt, static_cast<int64_t>(value));
  }
  Status big_endian_float() {
    uint64_t bits = 0;
    LFARM_RETURN_IF_ERROR(number(8, &bits));
    PickleObject object;
    object.kind = PickleKind::kFloat;
    object.number = std::bit_cast<double>(__builtin_bswap64(bits));
    push(std::move(object));
    return {};
  }
  Status push_text(PickleKind kind, size_t length_bytes) {
    uint64_t length = 0;
    LFARM_RETURN_IF_ERROR(number(length_bytes, &length));
    if (length > bytes_.size() - at_) return truncated();
    PickleObject object;
    object.kind = kind;
    object.text = std::string(common::as_text(bytes_.subspan(at_, length)));
    at_ += length;
    push(std::move(object));
    return {};
  }

  // The number of stack slots above the innermost mark, or all of them without one.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  // Removes the innermost mark and returns what was pushed after it.
  Result<std::vector<PickleRef>> take_to_mark() {
    if (marks_.empty()) return malformed("no mark").error();
    std::vector<PickleRef> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                                 stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  Result<std::vector<PickleRef>> take(size_t count) {
    if (available() < count) return malformed("stack underflow").error();
    std::vector<PickleRef> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  Status push_tuple(std::vector<PickleRef> items) {
    PickleObject object;
    object.kind = PickleKind::kTuple;
    object.items = std::move(items);
    push(std::move(object));
    return {};
  }
  Status make_tuple(size_t count) {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> items, take(count));
    return push_tuple(std::move(items));
  }
  Status tuple_from_mark() {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> items, take_to_mark());
    return push_tuple(std::move(items));
  }
  Result<PickleRef> top_of_kind(PickleKind kind, std::string_view what) const {
    if (available() == 0 || pickle_[stack_.back()].kind != kind) return malformed(what).error();
    return stack_.back();
  }
  Status append(bool many) {
    auto taken = many ? take_to_mark() : take(1);
    if (!taken.ok()) return taken.error();
    LFARM_ASSIGN_OR_RETURN(PickleRef list, top_of_kind(PickleKind::kList, "append to no list"));
    auto& items = pickle_.objects[list].items;
    items.insert(items.end(), taken->begin(), taken->end());
    return {};
  }
  Status set_items(bool many) {
    auto taken = many ? take_to_mark() : take(2);
    if (!taken.ok()) return taken.error();
    LFARM_ASSIGN_OR_RETURN(PickleRef dict, top_of_kind(PickleKind::kDict, "set items of no dict"));
    if (taken->size() % 2 != 0) return malformed("a key without a value");
    auto& pairs = pickle_.objects[dict].pairs;
    for (size_t i = 0; i < taken->size(); i += 2) pairs.push_back({(*taken)[i], (*taken)[i + 1]});
    return {};
  }

  Status put(size_t index_bytes) {
    if (available() == 0) return malformed("stack underflow");
    uint64_t index = memo_.size();
    if (index_bytes > 0) LFARM_RETURN_IF_ERROR(number(index_bytes, &index));
    if (index > memo_.size() + limits_.pickle_depth_max || index > limits_.pickle_objects_max) {
      return malformed("memo index out of order");
    }
    if (index >= memo_.size()) memo_.resize(index + 1, kUnset);
    memo_[index] = stack_.back();
    return {};
  }
  Status get(size_t index_bytes) {
    uint64_t index = 0;
    LFARM_RETURN_IF_ERROR(number(index_bytes, &index));
    if (index >= memo_.size() || memo_[index] == kUnset) return malformed("memo slot never set");
    stack_.push_back(memo_[index]);
    return {};
  }
  Status pop_one() {
    auto taken = take(1);
    return taken.ok() ? Status() : Status(taken.error());
  }
  Status pop_to_mark() {
    auto taken = take_to_mark();
    return taken.ok() ? Status() : Status(taken.error());
  }

  Status protocol() {
    uint64_t version = 0;
    LFARM_RETURN_IF_ERROR(number(1, &version));
    if (version < 2 || version > 4) {
      return invalid_input(cat("pickle protocol ", version, " is not read; 2 to 4 are"));
    }
    return {};
  }
  Status stop() {
    if (stack_.size() != 1 || !marks_.empty()) return malformed("stop with a full stack");
    pickle_.root = stack_.back();
    stopped_ = true;
    return {};
  }
  Status line(std::string* out) {
    std::string_view rest = common::as_text(bytes_.subspan(at_));
    size_t end = rest.find('\n');
    if (end == std::string_view::npos) return truncated();
    *out = std::string(rest.substr(0, end));
    at_ += end + 1;
    return {};
  }
  Status push_global(std::string name) {
    if (!global_is_allowed(name)) {
      return invalid_input(cat("the pickle wants '", name,
                               "', which is not allowed; save the model with torch.export.save"));
    }
    PickleObject object;
    object.kind = PickleKind::kGlobal;
    object.text = std::move(name);
    push(std::move(object));
    return {};
  }
  Status global_lines() {
    std::string module, name;
    LFARM_RETURN_IF_ERROR(line(&module));
    LFARM_RETURN_IF_ERROR(line(&name));
    return push_global(cat(module, ' ', name));
  }
  Status stack_global() {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> names, take(2));
    if (pickle_[names[0]].kind != PickleKind::kText ||
        pickle_[names[1]].kind != PickleKind::kText) {
      return malformed("a global without a name");
    }
    return push_global(cat(pickle_[names[0]].text, ' ', pickle_[names[1]].text));
  }

  // ('storage', storage type, key, location, elements)
  Status persistent_id() {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> id, take(1));
    const PickleObject& tuple = pickle_[id[0]];
    if (tuple.kind != PickleKind::kTuple || tuple.items.size() != 5) {
      return malformed("a persistent id that is no storage");
    }
    const PickleObject& type = pickle_[tuple.items[1]];
    const PickleObject& key = pickle_[tuple.items[2]];
    const PickleObject& elements = pickle_[tuple.items[4]];
    std::optional<ScalarType> dtype;
    if (type.kind == PickleKind::kGlobal) dtype = storage_dtype(type.text);
    if (pickle_[tuple.items[0]].text != "storage" || !dtype || key.kind != PickleKind::kText ||
        elements.kind != PickleKind::kInt || elements.integer < 0) {
      return malformed("a persistent id that is no storage");
    }
    PickleObject storage;
    storage.kind = PickleKind::kStorage;
    storage.dtype = *dtype;
    storage.text = key.text;
    storage.integer = elements.integer;
    push(std::move(storage));
    return {};
  }

  Status reduce() {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> call, take(2));
    const PickleObject& function = pickle_[call[0]];
    const PickleObject& arguments = pickle_[call[1]];
    if (function.kind != PickleKind::kGlobal || arguments.kind != PickleKind::kTuple) {
      return malformed("a call of something that is no function");
    }
    // A bound keeps a repeated call from copying a huge tuple again and again.
    if (arguments.items.size() > kMaxPickleArguments)
      return malformed("a call with many arguments");
    std::vector<PickleRef> items = arguments.items;
    if (function.text == kOrderedDict) return make_ordered_dict(items);
    if (function.text == kTensorV2) return make_tensor(items, false);
    if (function.text == kTensorV3) return make_tensor(items, true);
    if (function.text == kParameter) {
      if (items.size() < 2 || pickle_[items[0]].kind != PickleKind::kTensor) {
        return malformed("a parameter without a tensor");
      }
      stack_.push_back(items[0]);
      return {};
    }
    if (function.text == kSize) {
      if (items.size() != 1 || pickle_[items[0]].kind != PickleKind::kTuple) {
        return malformed("torch.Size of no tuple");
      }
      stack_.push_back(items[0]);
      return {};
    }
    return invalid_input(cat("the pickle calls '", function.text, "', which is not allowed"));
  }

  // Its items follow as ordinary dict items.
  Status make_ordered_dict(const std::vector<PickleRef>& arguments) {
    if (!arguments.empty()) return malformed("OrderedDict with arguments");
    return push_kind(PickleKind::kDict);
  }

  Result<std::vector<int64_t>> integers(PickleRef ref) const {
    const PickleObject& tuple = pickle_[ref];
    if (tuple.kind != PickleKind::kTuple || tuple.items.size() > kMaxTensorRank) {
      return malformed("sizes that are no tuple").error();
    }
    std::vector<int64_t> values;
    for (PickleRef item : tuple.items) {
      if (pickle_[item].kind != PickleKind::kInt) return malformed("a size that is no int").error();
      values.push_back(pickle_[item].integer);
    }
    return values;
  }

  // (storage, offset, sizes, strides, requires_grad, hooks[, dtype or metadata])
  Status make_tensor(const std::vector<PickleRef>& arguments, bool has_dtype) {
    if (arguments.size() < (has_dtype ? 7u : 6u)) return malformed("too few tensor arguments");
    const PickleObject& storage = pickle_[arguments[0]];
    const PickleObject& offset = pickle_[arguments[1]];
    if (storage.kind != PickleKind::kStorage || offset.kind != PickleKind::kInt) {
      return malformed("a tensor without a storage");
    }
    PickleObject tensor;
    tensor.kind = PickleKind::kTensor;
    tensor.dtype = storage.dtype;
    tensor.integer = offset.integer;
    tensor.items = {arguments[0]};
    if (has_dtype) {
      const PickleObject& dtype = pickle_[arguments[6]];
      auto named = dtype.kind == PickleKind::kGlobal ? dtype_global(dtype.text) : std::nullopt;
      if (!named) return malformed("a tensor without a dtype");
      tensor.dtype = *named;
    }
    LFARM_ASSIGN_OR_RETURN(tensor.sizes, integers(arguments[2]));
    LFARM_ASSIGN_OR_RETURN(tensor.strides, integers(arguments[3]));
    push(std::move(tensor));
    return {};
  }

  // A state dict carries its module versions as an attribute; they mean nothing here.
  Status build() {
    LFARM_ASSIGN_OR_RETURN(std::vector<PickleRef> state, take(1));
    if (pickle_[state[0]].kind != PickleKind::kDict) return malformed("state that is no dict");
    LFARM_ASSIGN_OR_RETURN(PickleRef object,
                           top_of_kind(PickleKind::kDict, "attributes of something else"));
    static_cast<void>(object);
    return {};
  }

  static constexpr PickleRef kUnset = ~PickleRef{0};
  ByteView bytes_;
  const Pt2Limits limits_;
  size_t at_ = 0;
  bool stopped_ = false;
  Pickle pickle_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::vector<PickleRef> memo_;
};

}  // namespace

Result<Pickle> read_pickle(ByteView bytes, const Pt2Limits& limits) {
  return Machine(bytes, limits).run();
}

}  // namespace clients
