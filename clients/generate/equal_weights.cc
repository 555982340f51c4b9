#include "clients/generate/equal_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "clients/runtime/model/tensor_named.h"
#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/process/oldest_files.h"

namespace clients {
namespace {

// What a file holds: one of these for each pair of weights.
constexpr char kEqual = '1', kDifferent = '0';
constexpr uint64_t kFormat = 2;
constexpr const char* kSuffix = ".equal";

// Weights of the same name and type, which may have the same content.
std::vector<EqualWeight> pairs_of(const Model& from, const Model& to) {
  std::vector<EqualWeight> pairs;
  for (size_t i = 0; i < to.weights.size(); ++i) {
    if (!to.weights[i] || to.graph.inputs[i].kind != common::InputKind::kWeight) continue;
    auto found = tensor_named(from, to.weight_names[i]);
    if (!found) continue;
    auto source = static_cast<size_t>(*found);
    bool is_weight = from.graph.inputs[source].kind == common::InputKind::kWeight;
    if (!is_weight || !from.weights[source]) continue;
    const StoredTensor &a = *from.weights[source], &b = *to.weights[i];
    if (a.dtype != b.dtype || a.sizes != b.sizes) continue;
    if (is_contiguous(a) && is_contiguous(b)) pairs.push_back({*found, static_cast<int>(i)});
  }
  return pairs;
}

bool have_equal_content(const StoredTensor& a, const StoredTensor& b) {
  common::ByteView x = contiguous_view(a), y = contiguous_view(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
}

std::vector<EqualWeight> compare(const std::vector<EqualWeight>& pairs, const Model& from,
                                 const Model& to) {
  std::vector<EqualWeight> equal;
  for (const EqualWeight& pair : pairs) {
    const StoredTensor& weight = *to.weights[static_cast<size_t>(pair.to)];
    if (!have_equal_content(*from.weights[static_cast<size_t>(pair.from)], weight)) continue;
    equal.push_back(pair);
    if (to.file) to.file->release(weight.storage);
  }
  return equal;
}

// Names both files as they are, and what was compared.
common::Digest comparison_of(const std::vector<EqualWeight>& pairs, const Model& from,
                             const Model& to, const RememberedComparison& remembered) {
  common::Hasher hasher;
  hasher.u64(kFormat).digest(remembered.from.digest()).digest(remembered.to.digest());
  for (const EqualWeight& pair : pairs) {
    hasher.text(from.weight_names[static_cast<size_t>(pair.from)]);
    hasher.text(to.weight_names[static_cast<size_t>(pair.to)]);
  }
  return hasher.finish();
}

std::optional<std::vector<EqualWeight>> read_answer(const std::string& path,
                                                    const std::vector<EqualWeight>& pairs) {
  auto text = common::read_file(path);
  if (!text.ok() || text->size() != pairs.size()) return std::nullopt;
  std::vector<EqualWeight> equal;
  for (size_t k = 0; k < pairs.size(); ++k) {
    char verdict = (*text)[k];
    if (verdict != kEqual && verdict != kDifferent) return std::nullopt;
    if (verdict == kEqual) equal.push_back(pairs[k]);
  }
  return equal;
}

// Where the directory cannot be written, the next process compares again.
void keep_answer(const std::string& path, const std::vector<EqualWeight>& pairs,
                 const std::vector<EqualWeight>& equal) {
  std::string text;
  size_t next = 0;
  for (const EqualWeight& pair : pairs) {
    bool is_equal = next < equal.size() && equal[next] == pair;
    text += is_equal ? kEqual : kDifferent;
    next += is_equal ? 1 : 0;
  }
  (void)common::write_file_atomic(path, common::as_bytes(text));
}

}  // namespace

std::vector<EqualWeight> equal_weights(const Model& from, const Model& to) {
  return compare(pairs_of(from, to), from, to);
}

std::vector<EqualWeight> equal_weights(const Model& from, const Model& to,
                                       const RememberedComparison& remembered) {
  std::vector<EqualWeight> pairs = pairs_of(from, to);
  const std::string path = common::cat(remembered.directory, "/",
                                       comparison_of(pairs, from, to, remembered).hex(), kSuffix);
  if (auto known = read_answer(path, pairs)) return *std::move(known);
  // Asked before anything is read, so that a change since then makes another identity.
  bool is_kept = is_settled(remembered.from, remembered.settled_ns) &&
                 is_settled(remembered.to, remembered.settled_ns);
  std::vector<EqualWeight> equal = compare(pairs, from, to);
  if (is_kept && common::make_directories(remembered.directory).ok()) {
    keep_answer(path, pairs, equal);
    common::remove_oldest_files(remembered.directory, kSuffix, {.files = kComparisonsMax});
  }
  return equal;
}

common::Status share_weights(const std::vector<EqualWeight>& equal,
                             const std::shared_ptr<Weights>& from, Weights& to) {
  for (const EqualWeight& one : equal) {
    LFARM_ASSIGN_OR_RETURN(common::TensorRef content, from->on_device(one.from));
    LFARM_RETURN_IF_ERROR(to.bind(one.to, content, from, Bound::kEqual));
  }
  return {};
}

}  // namespace clients
