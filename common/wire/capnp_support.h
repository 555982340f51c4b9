// Inside common/wire: the pieces that every codec is made of.
// No other component may include this header: it brings Cap'n Proto's own.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/cat.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/revocation_rule.h"
#include "common/wire/limits.h"
#include "schemas/plan.capnp.h"

namespace common {

// Thrown while reading and caught in decode_flat(), like the exceptions of the library beside it.
struct Malformed {
  std::string what;  // "message holds WHAT"
};

inline kj::StringPtr kj_text(const std::string& text) { return {text.c_str(), text.size()}; }

inline capnp::Data::Reader kj_data(ByteView bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

inline std::string get_text(capnp::Text::Reader in, size_t bytes_max) {
  if (in.size() > bytes_max) {
    throw Malformed{cat("a text of ", in.size(), " bytes; at most ", bytes_max, " are accepted")};
  }
  return {in.begin(), in.size()};
}

inline Bytes get_data(capnp::Data::Reader in, size_t bytes_max) {
  if (in.size() > bytes_max) {
    throw Malformed{cat("data of ", in.size(), " bytes; at most ", bytes_max,
                        " are accepted, larger data travels as a blob")};
  }
  auto* first = reinterpret_cast<const std::byte*>(in.begin());
  return {first, first + in.size()};
}

template <class List>
void check_count(const List& list, size_t max, const char* what) {
  if (list.size() > max) {
    throw Malformed{cat("a list of ", list.size(), ' ', what, "; at most ", max, " are accepted")};
  }
}

// A list of numbers.
template <class Number>
std::vector<Number> get_numbers(typename capnp::List<Number>::Reader in, size_t max,
                                const char* what) {
  check_count(in, max, what);
  std::vector<Number> numbers;
  numbers.reserve(in.size());
  for (Number number : in) numbers.push_back(number);
  return numbers;
}

// The schemas' enums and the values' list the same names in the same order.
template <class To, class From>
To get_enum(From value, To last, const char* what) {
  auto number = static_cast<uint16_t>(value);
  if (number > static_cast<uint16_t>(last)) throw Malformed{cat("unknown ", what, ' ', number)};
  return static_cast<To>(number);
}

inline void put(schemas::plan::Digest::Builder out, const Digest& digest) {
  uint64_t words[4];
  static_assert(sizeof words == sizeof digest.bytes);
  std::memcpy(words, digest.bytes.data(), sizeof words);
  out.setWord0(words[0]);
  out.setWord1(words[1]);
  out.setWord2(words[2]);
  out.setWord3(words[3]);
}

inline Digest get(schemas::plan::Digest::Reader in) {
  uint64_t words[4] = {in.getWord0(), in.getWord1(), in.getWord2(), in.getWord3()};
  Digest digest;
  std::memcpy(digest.bytes.data(), words, sizeof words);
  return digest;
}

inline void put(capnp::List<schemas::plan::Digest>::Builder out,
                const std::vector<Digest>& digests) {
  for (size_t i = 0; i < digests.size(); ++i) {
    put(out[static_cast<capnp::uint>(i)], digests[i]);
  }
}

inline std::vector<Digest> get(capnp::List<schemas::plan::Digest>::Reader in) {
  check_count(in, kDigestsMax, "digests");
  std::vector<Digest> digests;
  digests.reserve(in.size());
  for (auto digest : in) digests.push_back(get(digest));
  return digests;
}

inline void put(schemas::plan::RevocationRule::Builder out, const RevocationRule& rule) {
  out.setWorker(kj_text(rule.worker));
  out.setToolchain(kj_text(rule.toolchain));
  out.setFromNs(rule.from_ns);
  out.setUntilNs(rule.until_ns);
}

// Its texts are not checked.
inline RevocationRule get_rule(schemas::plan::RevocationRule::Reader in) {
  auto text = [](capnp::Text::Reader from) { return std::string(from.cStr(), from.size()); };
  return {text(in.getWorker()), text(in.getToolchain()), in.getFromNs(), in.getUntilNs()};
}

// What has been built, as one run of bytes.
inline Bytes flatten(capnp::MessageBuilder& builder) {
  auto segments = builder.getSegmentsForOutput();
  Bytes bytes(capnp::computeSerializedSizeInWords(segments) * sizeof(capnp::word));
  kj::ArrayOutputStream stream(
      kj::ArrayPtr<kj::byte>(reinterpret_cast<kj::byte*>(bytes.data()), bytes.size()));
  capnp::writeMessage(stream, segments);
  return bytes;
}

// Reads a message of root type Root: `read(root)` returns a Result. Exceptions end here. `what`
// names the message in errors.
template <class Value, class Root, class Read>
Result<Value> decode_flat(ByteView bytes, const char* what, size_t bytes_max, int nesting_max,
                          Read&& read) {
  if (bytes.size() > bytes_max) {
    return invalid_input(
        cat(what, " of ", bytes.size(), " bytes; at most ", bytes_max, " are accepted"));
  }
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return corrupt(cat(what, " of ", bytes.size(), " bytes, which is cut off"));
  }
  try {
    kj::Array<capnp::word> aligned;
    kj::ArrayPtr<const capnp::word> words(reinterpret_cast<const capnp::word*>(bytes.data()),
                                          bytes.size() / sizeof(capnp::word));
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(capnp::word) != 0) {
      aligned = kj::heapArray<capnp::word>(words.size());
      std::memcpy(aligned.begin(), bytes.data(), bytes.size());
      words = aligned;
    }
    capnp::ReaderOptions options;
    // A pointer may be followed more than once in a hostile message; this bounds the work to
    // little more than the message's own size.
    options.traversalLimitInWords = words.size() + 64;
    options.nestingLimit = nesting_max;
    capnp::FlatArrayMessageReader reader(words, options);
    if (reader.getEnd() != words.end()) return corrupt(cat(what, " followed by stray bytes"));
    return read(reader.getRoot<Root>());
  } catch (const kj::Exception& exception) {
    return corrupt(cat(what, " is damaged: ", exception.getDescription().cStr()));
  } catch (const Malformed& malformed) {
    return invalid_input(cat(what, " holds ", malformed.what));
  }
}

}  // namespace common
