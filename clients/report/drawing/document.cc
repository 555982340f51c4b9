#include "clients/report/drawing/document.h"

#include "clients/report/drawing/style.h"

namespace clients {
namespace {

// Nothing is fetched, run or sent, whatever the measurements hold.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

}  // namespace

void begin_document(HtmlWriter* html, const std::string& title) {
  html->verbatim("<!DOCTYPE html>\n");
  html->open("html", {{"lang", "en"}});
  html->open("head");
  html->empty("meta", {{"charset", "utf-8"}});
  html->empty("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", kPolicy}});
  html->empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  html->empty("meta", {{"name", "referrer"}, {"content", "no-referrer"}});
  html->element("title", title);
  html->open("style");
  html->verbatim(kReportStyle);
  html->close("style");
  html->close("head");
  html->line();
  html->open("body");
  html->open("main");
  html->element("h1", title);
}

}  // namespace clients
