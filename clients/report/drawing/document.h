// An HTML file that needs nothing else: no script, no font, no network.
#pragma once

#include <string>

#include "clients/report/drawing/html.h"

namespace clients {

// Up to and with the heading. The end of the document closes the rest.
void begin_document(HtmlWriter* html, const std::string& title);

}  // namespace clients
