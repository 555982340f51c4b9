// Where tests find what they read and start. Only this file's source knows this checkout's place,
// so that compiled tests are alike in every clone and a compiler cache serves them all.
#pragma once

#include <string>
#include <string_view>

namespace paths {

// tests/fixtures, with `below` appended as it stands.
std::string fixtures(std::string_view below = "");
// The optional folder of larger cases beside the checkout.
std::string shared(std::string_view below = "");
// The built programs.
std::string binaries(std::string_view below = "");

}  // namespace paths
