#include "clients/cli/models/npy.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::ByteView;
using common::cat;
using common::DType;
using common::HostTensor;
using common::invalid_input;
using common::Result;
using common::Status;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderBytesMax = size_t{1} << 20;
constexpr size_t kRankMax = 64;
constexpr size_t kHeaderAlignment = 64;

// The header is a Python dictionary of three entries; this reads exactly that.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, NpyArray* array) : text_(text), array_(array) {}

  Status parse() {
    if (!take('{')) return wrong("it does not start with '{'");
    while (!take('}')) {
      std::string_view key;
      if (!string(&key) || !take(':')) return wrong("a key is expected");
      LFARM_RETURN_IF_ERROR(entry(key));
      if (!take(',') && !at('}')) return wrong("',' is expected");
    }
    skip_spaces();
    if (place_ != text_.size()) return wrong("something follows its '}'");
    if (seen_ != 7) return wrong("descr, fortran_order or shape is missing");
    return {};
  }

 private:
  Status entry(std::string_view key) {
    if (key == "descr") {
      seen_ |= 1;
      return descr();
    }
    if (key == "fortran_order") {
      seen_ |= 2;
      if (word("True"))
        array_->fortran_order = true;
      else if (word("False"))
        array_->fortran_order = false;
      else
        return wrong("fortran_order is neither True nor False");
      return {};
    }
    if (key == "shape") {
      seen_ |= 4;
      return shape();
    }
    return wrong("it has an unknown key");
  }

  Status descr() {
    std::string_view text;
    if (!string(&text)) return invalid_input("its elements are records, not numbers");
    if (text.size() < 3) return wrong("descr is too short");
    char order = text[0];
    if (order == '>') return invalid_input("it is big-endian; save it as little-endian");
    if (order != '<' && order != '|' && order != '=') return wrong("descr has no byte order");
    array_->kind = text[1];
    int bytes = 0;
    auto digits = text.substr(2);
    auto end = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
    bool number = end.ec == std::errc() && end.ptr == digits.data() + digits.size();
    bool power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
    if (!number || !power || std::string_view("biufc").find(text[1]) == std::string_view::npos) {
      return invalid_input(cat("its elements are of type '", printable(text), "', not numbers"));
    }
    array_->item_bytes = bytes;
    return {};
  }

  Status shape() {
    array_->sizes.clear();
    if (!take('(')) return wrong("shape is no tuple");
    while (!take(')')) {
      skip_spaces();
      int64_t size = 0;
      const char* begin = text_.data() + place_;
      auto end = std::from_chars(begin, text_.data() + text_.size(), size);
      if (end.ec != std::errc() || size < 0) return wrong("shape has an impossible size");
      place_ += static_cast<size_t>(end.ptr - begin);
      if (array_->sizes.size() == kRankMax) return wrong("shape has too many axes");
      array_->sizes.push_back(size);
      if (!take(',') && !at(')')) return wrong("',' is expected in shape");
    }
    return {};
  }

  void skip_spaces() {
    while (place_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[place_])) != 0) {
      ++place_;
    }
  }
  bool at(char c) {
    skip_spaces();
    return place_ < text_.size() && text_[place_] == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    ++place_;
    return true;
  }
  bool word(std::string_view expected) {
    skip_spaces();
    if (text_.substr(place_, expected.size()) != expected) return false;
    place_ += expected.size();
    return true;
  }
  bool string(std::string_view* out) {
    skip_spaces();
    if (!at('\'') && !at('"')) return false;
    size_t end = text_.find(text_[place_], place_ + 1);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(place_ + 1, end - place_ - 1);
    place_ = end + 1;
    return true;
  }
  static std::string printable(std::string_view text) {
    std::string out(text.substr(0, 32));
    for (char& c : out) {
      if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
    }
    return out;
  }
  static common::Error wrong(std::string_view what) {
    return invalid_input(cat("its header is malformed: ", what));
  }

  std::string_view text_;
  NpyArray* array_;
  size_t place_ = 0;
  unsigned seen_ = 0;
};

struct NpyType {
  char kind;
  int item_bytes;
};

NpyType npy_type(DType dtype, bool complex) {
  int bytes = static_cast<int>(common::dtype_size(dtype));
  if (complex) return {'c', bytes * 2};
  switch (dtype) {
    case DType::kBool:
      return {'b', bytes};
    case DType::kUint8:
    case DType::kBfloat16:
      return {'u', bytes};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {'i', bytes};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {'f', bytes};
    case DType::kComplex64:
      return {'c', bytes};
  }
  LFARM_CHECK(false, "unknown dtype");
}

std::string type_name(NpyType type) {
  std::string_view base = type.kind == 'b'   ? "bool"
                          : type.kind == 'i' ? "int"
                          : type.kind == 'u' ? "uint"
                          : type.kind == 'f' ? "float"
                                             : "complex";
  return type.kind == 'b' ? std::string(base) : cat(base, type.item_bytes * 8);
}

// Element positions of a Fortran-order array, visited in row-major order of the indices.
void copy_fortran(const NpyArray& array, std::span<std::byte> out) {
  struct Axis {
    size_t size, stride, index;
  };
  auto bytes = static_cast<size_t>(array.item_bytes);
  std::vector<Axis> axes;  // last first: the order in which indices count up
  size_t step = bytes;
  for (int64_t size : array.sizes) {
    axes.insert(axes.begin(), Axis{static_cast<size_t>(size), step, 0});
    step *= static_cast<size_t>(size);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += bytes) {
    std::memcpy(out.data() + to, array.data.data() + from, bytes);
    for (Axis& axis : axes) {
      from += axis.stride;
      if (++axis.index < axis.size) break;
      from -= axis.stride * axis.size;
      axis.index = 0;
    }
  }
}

}  // namespace

Result<NpyArray> parse_npy(ByteView file) {
  if (file.size() < 10 || common::as_text(file.first(6)) != kMagic) {
    return invalid_input("it is no .npy file");
  }
  auto version = static_cast<unsigned>(file[6]);
  if (version < 1 || version > 3) return invalid_input("its .npy version is unknown");
  size_t length_bytes = version == 1 ? 2 : 4;
  if (file.size() < 8 + length_bytes) return invalid_input("it is truncated");
  size_t header = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header |= static_cast<size_t>(file[8 + i]) << (8 * i);
  }
  size_t start = 8 + length_bytes;
  if (header > kHeaderBytesMax || header > file.size() - start) {
    return invalid_input("its header is truncated");
  }
  NpyArray array;
  LFARM_RETURN_IF_ERROR(HeaderParser(common::as_text(file.subspan(start, header)), &array).parse());
  // Bytes are counted with uint8 elements, so that one check serves all item sizes.
  std::vector<int64_t> sizes = array.sizes;
  sizes.push_back(array.item_bytes);
  LFARM_ASSIGN_OR_RETURN(int64_t bytes, common::checked_element_count(DType::kUint8, sizes));
  array.data = file.subspan(start + header);
  if (array.data.size() != static_cast<size_t>(bytes)) {
    return invalid_input(cat("it holds ", array.data.size(), " bytes of elements where ",
                             npy_type_text(array), " takes ", bytes));
  }
  return array;
}

std::string npy_type_text(const NpyArray& array) {
  std::string out = type_name({array.kind, array.item_bytes}) + "[";
  for (size_t i = 0; i < array.sizes.size(); ++i) {
    out += cat(i == 0 ? "" : ", ", array.sizes[i]);
  }
  return out + "]";
}

Result<HostTensor> tensor_from_npy(const NpyArray& array, DType dtype, bool complex) {
  NpyType wanted = npy_type(dtype, complex);
  if (wanted.kind != array.kind || wanted.item_bytes != array.item_bytes) {
    std::string_view note = dtype == DType::kBfloat16 ? " (the bits of bfloat16)" : "";
    return invalid_input(
        cat("it holds ", npy_type_text(array), " where ", type_name(wanted), note, " is expected"));
  }
  std::vector<int64_t> sizes = array.sizes;
  if (complex) sizes.push_back(2);
  LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::uninitialized(dtype, std::move(sizes)));
  std::span<std::byte> out = tensor.mutable_bytes();
  LFARM_CHECK(out.size() == array.data.size(), "a parsed array's bytes fit its sizes");
  if (array.fortran_order) {
    copy_fortran(array, out);
  } else if (!out.empty()) {
    std::memcpy(out.data(), array.data.data(), out.size());
  }
  if (dtype == DType::kBool) {
    for (std::byte& truth : out) truth = std::byte{truth != std::byte{0}};
  }
  return tensor;
}

common::Bytes npy_from_tensor(const HostTensor& tensor, bool complex) {
  NpyType type = npy_type(tensor.dtype(), complex);
  size_t rank = tensor.sizes().size() - (complex ? 1 : 0);
  std::string header = cat("{'descr': '", type.item_bytes == 1 ? '|' : '<', type.kind,
                           type.item_bytes, "', 'fortran_order': False, 'shape': (");
  for (size_t i = 0; i < rank; ++i) header += cat(i == 0 ? "" : " ", tensor.sizes()[i], ",");
  header += "), }";
  // The elements start at a multiple of 64 bytes; the header ends with a newline.
  size_t used = 10 + header.size() + 1;
  header.append((kHeaderAlignment - used % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  LFARM_CHECK(header.size() < 65536, "a header of at most 64 axes fits version 1");
  common::Bytes file = common::to_bytes(common::as_bytes(kMagic));
  file.push_back(std::byte{1});
  file.push_back(std::byte{0});
  file.push_back(static_cast<std::byte>(header.size() & 0xff));
  file.push_back(static_cast<std::byte>(header.size() >> 8));
  ByteView text = common::as_bytes(header);
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), tensor.bytes().begin(), tensor.bytes().end());
  return file;
}

Result<HostTensor> read_npy(const std::string& path, DType dtype, bool complex) {
  LFARM_ASSIGN_OR_RETURN(auto file, common::MappedFile::open(path));
  auto array = parse_npy(file->bytes());
  if (!array.ok()) return invalid_input(cat(path, ": ", array.error().message));
  auto tensor = tensor_from_npy(*array, dtype, complex);
  if (!tensor.ok()) return invalid_input(cat(path, ": ", tensor.error().message));
  return tensor;
}

Status write_npy(const std::string& path, const HostTensor& tensor, bool complex) {
  return common::write_file_atomic(path, npy_from_tensor(tensor, complex));
}

}  // namespace clients
