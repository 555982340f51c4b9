#include "tests/tidy/source_text.h"

#include <algorithm>
#include <cctype>

namespace tidy {
namespace {

// Blanks comments and literals, one character at a time; newlines stay so that lines keep their
// numbers.
class Blanker {
 public:
  explicit Blanker(std::string text) : text_(std::move(text)) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (looking_at("//")) {
        blank_until("\n", 0);
      } else if (looking_at("/*")) {
        blank_until("*/", 2);
      } else if (looking_at("R\"")) {
        const size_t open = text_.find('(', at_);
        const std::string end = ")" + text_.substr(at_ + 2, open - at_ - 2) + "\"";
        blank_until(end, end.size());
      } else if (text_[at_] == '"' || starts_character()) {
        blank_literal(text_[at_]);
      } else {
        ++at_;
      }
    }
    return std::move(text_);
  }

 private:
  bool looking_at(std::string_view what) const {
    return text_.compare(at_, what.size(), what) == 0;
  }

  // A quote after a digit or letter separates digits (1'000), except after u8, u, U and L.
  bool starts_character() const {
    return text_[at_] == '\'' &&
           (at_ == 0 || !std::isalnum(static_cast<unsigned char>(text_[at_ - 1])));
  }

  void blank_until(std::string_view end, size_t keep) {
    const size_t found = text_.find(end, at_ + (keep != 0 ? 2 : 0));
    const size_t stop = found == std::string::npos ? text_.size() : found + keep;
    for (; at_ < stop; ++at_) {
      if (text_[at_] != '\n') text_[at_] = ' ';
    }
  }

  void blank_literal(char quote) {
    text_[at_++] = ' ';
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) text_[at_++] = ' ';
      if (text_[at_] != '\n') text_[at_] = ' ';
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] == quote) text_[at_++] = ' ';
  }

  std::string text_;
  size_t at_ = 0;
};

// Whether the character at `i` belongs to a name.
bool is_part(std::string_view text, size_t i) {
  return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(text, at - 1)) && !is_part(text, at + word.size())) return true;
  }
  return false;
}

// The name that ends before the parenthesis at `open`; empty behind an object or a namespace.
std::string free_name(std::string_view text, size_t open) {
  size_t first = open;
  while (first > 0 && is_part(text, first - 1)) --first;
  const std::string_view before = text.substr(0, first);
  const bool is_free = !before.ends_with('.') && !before.ends_with("->") && !before.ends_with("::");
  return is_free ? std::string(text.substr(first, open - first)) : "";
}

// The function that `statement`, all in front of its body, declares.
std::string function_name(std::string_view statement) {
  int angles = 0;
  for (size_t i = 0; i < statement.size(); ++i) {
    if (statement[i] == '<') ++angles;
    if (statement[i] == '>') --angles;
    if (statement[i] == '(' && angles == 0) return free_name(statement, i);
  }
  return "";
}

// What a brace opens, judged by the statement in front of it.
enum class Scope { kNamespace, kAnonymous, kType, kFunction, kOther };

Scope scope_of(std::string_view statement) {
  const std::string_view code = statement.substr(0, statement.find_last_not_of(" \n") + 1);
  if (code.ends_with("namespace")) return Scope::kAnonymous;
  if (has_word(statement, "namespace") || has_word(statement, "extern")) return Scope::kNamespace;
  const bool has_parameters = statement.find('(') != std::string_view::npos;
  for (const char* word : {"class", "struct", "union", "enum"}) {
    // "template <class T> T f(T x)" is a function: look behind the template's parameters.
    const size_t after = statement.rfind('>');
    const bool is_template = has_word(statement, "template");
    const std::string_view rest =
        is_template && after != std::string_view::npos ? statement.substr(after) : statement;
    if (has_word(rest, word) && rest.find('(') == std::string_view::npos) return Scope::kType;
    if (!is_template && has_word(statement, word) && !has_parameters) return Scope::kType;
  }
  return has_parameters ? Scope::kFunction : Scope::kOther;
}

// What `statement` declares, without template arguments, initialisers and what is in braces.
std::string declaration_in(std::string_view statement) {
  std::string out;
  int angles = 0, nested = 0;
  bool is_initialiser = false;
  for (char c : statement) {
    if (c == '<') ++angles;
    if (angles == 0 && (c == '{' || c == '(')) ++nested;
    if (angles == 0 && nested == 0 && c == '=') is_initialiser = true;
    if (angles == 0 && nested == 0 && c == ',') is_initialiser = false;
    const bool is_inside = angles > 0 || (nested > 0 && c != '(') || is_initialiser;
    if (!is_inside) out += c;
    if (angles == 0 && nested > 0 && (c == '}' || c == ')')) --nested;
    if (c == '>' && angles > 0) --angles;
  }
  return out;
}

// The data members that a statement of a type's body declares.
int members_in(std::string_view statement) {
  if (has_word(statement, "operator")) return 0;
  std::string text = declaration_in(statement);
  for (std::string_view label : {"public:", "private:", "protected:"}) {
    const size_t at = text.find(label);
    if (at != std::string::npos) text.erase(0, at + label.size());
  }
  const size_t first = text.find_first_not_of(" \n");
  if (first == std::string::npos || text.find('(') != std::string::npos) return 0;
  text.erase(0, first);
  for (std::string_view word : {"using", "typedef", "friend", "static", "template", "enum",
                                "extern", "class", "struct", "union"}) {
    // "struct stat info" is a member, "struct Link" announces a type.
    const bool is_type = word == "class" || word == "struct" || word == "union";
    if (!has_word(is_type ? text.substr(0, word.size()) : text, word)) continue;
    if (!is_type || std::count(text.begin(), text.end(), ' ') == 1) return 0;
  }
  return 1 + static_cast<int>(std::count(text.begin(), text.end(), ','));
}

// The name in "class Name final : public Base"; empty for a type without one.
std::string type_name(std::string_view statement) {
  for (std::string_view word : {"class ", "struct ", "union "}) {
    const size_t at = statement.find(word);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = statement.substr(at + word.size());
    const size_t end = std::min(rest.find_first_of(" \n{"), rest.size());
    return std::string(rest.substr(0, end));
  }
  return "";
}

// Whether "struct stat info" is in front of the brace: a variable's initialiser begins.
bool is_variable_of_type(std::string_view statement) {
  const std::string name = type_name(statement);
  if (name.empty()) return false;
  const std::string_view rest = statement.substr(statement.find(name) + name.size());
  const size_t next = rest.find_first_not_of(" \n");
  if (next == std::string_view::npos || rest[next] == ':') return false;
  return !has_word(rest, "final");
}

// The place of the brace that closes the one at `open`.
size_t closing_brace(std::string_view code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '{') ++depth;
    if (code[i] == '}' && --depth == 0) return i;
  }
  return code.size();
}

// The code without preprocessor lines, whose braces need not balance.
std::string without_directives(const std::string& code) {
  std::string out = code;
  bool continued = false;
  size_t start = 0;
  while (start < out.size()) {
    const size_t end = std::min(out.find('\n', start), out.size());
    const size_t first = out.find_first_not_of(" \t", start);
    if (continued || (first < end && out[first] == '#')) {
      continued = end > start && out[end - 1] == '\\';
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(start),
                out.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    }
    start = end + 1;
  }
  return out;
}

// Whether what is declared within the open scopes can be named in its file alone.
bool is_local(const std::vector<Scope>& open) {
  const auto has = [&](Scope scope) {
    return std::find(open.begin(), open.end(), scope) != open.end();
  };
  return has(Scope::kAnonymous) && !has(Scope::kType);
}

// The comment lines directly above line `line` (counted from 1).
std::string comment_above(const std::vector<std::string_view>& lines, int line) {
  std::string comment;
  for (int i = line - 2; i >= 0; --i) {
    const size_t first = lines[static_cast<size_t>(i)].find_first_not_of(' ');
    if (first == std::string_view::npos || lines[static_cast<size_t>(i)].substr(first, 2) != "//")
      break;
    comment.insert(0, "\n").insert(0, lines[static_cast<size_t>(i)].substr(first));
  }
  return comment;
}

}  // namespace

std::string SourceFile::component() const {
  const size_t first = path.find('/');
  const size_t second = first == std::string::npos ? first : path.find('/', first + 1);
  return second == std::string::npos ? "" : path.substr(0, second);
}

SourceFile make_source(std::string path, std::string text) {
  SourceFile file{std::move(path), std::move(text), ""};
  if (file.is_cpp()) file.code = Blanker(file.text).run();
  return file;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> includes;
  constexpr std::string_view kDirective = "#include ";
  const std::vector<std::string_view> lines = lines_of(file.text);
  const std::vector<std::string_view> code = lines_of(file.code);
  for (size_t i = 0; i < lines.size(); ++i) {
    // The code, too, so that a raw string with generated source does not count.
    if (!lines[i].starts_with(kDirective) || !code[i].starts_with("#include")) continue;
    const std::string_view rest = lines[i].substr(kDirective.size());
    const size_t end = rest.find_first_of("\">", 1);
    if (end == std::string_view::npos) continue;
    includes.push_back({static_cast<int>(i) + 1, std::string(rest.substr(0, end + 1))});
  }
  return includes;
}

std::vector<Function> functions_of(const SourceFile& file) {
  const std::string code = without_directives(file.code);
  const std::vector<std::string_view> lines = lines_of(file.text);
  std::vector<Function> functions;
  std::vector<Scope> open;
  size_t statement = 0;  // where the current statement begins
  int line = 1;
  int depth_in_function = 0;
  Function current;
  int opened_at = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '\n') ++line;
    if (depth_in_function > 0) {
      if (code[i] == '{') ++depth_in_function;
      if (code[i] == '}' && --depth_in_function == 0) {
        current.length = line - opened_at + 1;
        functions.push_back(current);
        statement = i + 1;
      }
      continue;
    }
    if (code[i] == ';') statement = i + 1;
    if (code[i] == '{') {
      const std::string_view before = std::string_view(code).substr(statement, i - statement);
      const Scope scope = scope_of(before);
      if (scope == Scope::kFunction) {
        const size_t first = before.find_first_not_of(" \n");
        const auto newlines =
            std::count(before.begin() + static_cast<std::ptrdiff_t>(first), before.end(), '\n');
        current = {function_name(before), is_local(open), line - static_cast<int>(newlines), 0, ""};
        current.comment = comment_above(lines, current.line);
        opened_at = line;
        depth_in_function = 1;
      } else {
        open.push_back(scope);
      }
      statement = i + 1;
    }
    if (code[i] == '}') {
      if (!open.empty()) open.pop_back();
      statement = i + 1;
    }
  }
  return functions;
}

std::set<std::string> called_names(const SourceFile& file) {
  std::set<std::string> names;
  for (size_t i = 0; i < file.code.size(); ++i) {
    if (file.code[i] == '(') names.insert(free_name(file.code, i));
  }
  return names;
}

std::vector<Type> types_of(const SourceFile& file) {
  const std::string code = without_directives(file.code);
  std::vector<Type> types, open;  // an open namespace has no members that count
  size_t statement = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const std::string_view before = std::string_view(code).substr(statement, i - statement);
    if (code[i] == '{') {
      const std::string declared = declaration_in(before);
      Scope scope = has_word(before, "operator") ? Scope::kFunction : scope_of(declared);
      if (scope == Scope::kType && is_variable_of_type(declared)) scope = Scope::kOther;
      if (scope == Scope::kNamespace || scope == Scope::kAnonymous ||
          (scope == Scope::kType && !has_word(declared, "enum"))) {
        const int line =
            1 + static_cast<int>(
                    std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(i), '\n'));
        open.push_back({line, scope == Scope::kType ? type_name(before) : "", 0});
        statement = i + 1;
        continue;
      }
      i = closing_brace(code, i);
      // A member's initialiser is a part of its statement.
      if (scope != Scope::kOther) statement = i + 1;
    } else if (code[i] == ';') {
      if (!open.empty()) open.back().members += members_in(before);
      statement = i + 1;
    } else if (code[i] == '}') {
      if (!open.empty()) {
        if (!open.back().name.empty()) types.push_back(open.back());
        open.pop_back();
      }
      statement = i + 1;
    }
  }
  return types;
}

}  // namespace tidy
