#include "coordinator/service/searchers/search_frames.h"

#include "common/base/cat.h"
#include "common/wire/codec.h"
#include "coordinator/service/searchers/fields.h"
#include "coordinator/service/searchers/shared_fields.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

constexpr size_t kHeadBytes = 1 + sizeof(uint64_t);

template <class Value>
std::string encoded(const Value& value) {
  FieldsWriter writer;
  writer(value);
  return writer.take();
}

}  // namespace

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, StageTime>
void fields(Archive& archive, Value& time) { archive(time.stage, time.ms); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearcherHello>
void fields(Archive& archive, Value& hello) { archive(hello.build, hello.name, hello.searches); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearcherBeat>
void fields(Archive& archive, Value& beat) { archive(beat.cpu_us); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, OpenSearch>
void fields(Archive& archive, Value& open) { archive(open.job, open.records); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearchOpened>
void fields(Archive& archive, Value& opened) { archive(opened.preparation, opened.status); }

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, AdvanceSearch>
void fields(Archive& archive, Value& advance) {
  archive(advance.results, advance.finish_now, advance.candidates);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearchQuestion>
void fields(Archive& archive, Value& question) {
  archive(question.is_kernel, question.kind, question.key);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearchAnswer>
void fields(Archive& archive, Value& answer) { archive(answer.ns, answer.record); }

std::string search_frame(FrameKind kind, uint64_t search, std::string body) {
  std::string frame(1, static_cast<char>(kind));
  cache::append_u64(frame, search);
  return frame + body;
}

Result<SearchFrame> parse_frame(std::string_view bytes) {
  bool is_frame = bytes.size() >= kHeadBytes &&
                  static_cast<uint8_t>(bytes[0]) <= static_cast<uint8_t>(FrameKind::kClose);
  if (!is_frame) return common::corrupt("a frame's head is damaged");
  cache::FieldReader reader(bytes.substr(1));
  SearchFrame frame;
  frame.kind = static_cast<FrameKind>(bytes[0]);
  frame.search = reader.u64();
  frame.body = reader.rest();
  return frame;
}

std::string searcher_build() { return cat(common::build_name(), ", ", common::kCompilerEpoch); }

std::string encode(const SearcherHello& hello) { return encoded(hello); }
std::string encode(const SearcherBeat& beat) { return encoded(beat); }
std::string encode(const OpenSearch& open) { return encoded(open); }
std::string encode(const SearchOpened& opened) { return encoded(opened); }
std::string encode(const AdvanceSearch& advance) { return encoded(advance); }
std::string encode(const std::vector<SearchQuestion>& questions) { return encoded(questions); }
std::string encode(const std::vector<SearchAnswer>& answers) { return encoded(answers); }
std::string encode(const SearchFailure& failure) { return encoded(failure); }

template <class Value>
Result<Value> decode(std::string_view body) {
  FieldsReader reader(body);
  Value value{};
  reader(value);
  if (!reader.done()) return common::corrupt("a frame's value is damaged");
  return value;
}

template Result<SearcherHello> decode(std::string_view);
template Result<SearcherBeat> decode(std::string_view);
template Result<OpenSearch> decode(std::string_view);
template Result<SearchOpened> decode(std::string_view);
template Result<AdvanceSearch> decode(std::string_view);
template Result<std::vector<SearchQuestion>> decode(std::string_view);
template Result<std::vector<SearchAnswer>> decode(std::string_view);
template Result<SearchFailure> decode(std::string_view);

}  // namespace coordinator::service
