#include "src/report/html/text.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(HtmlText, EscapesWhatMarkupUses) {
  EXPECT_EQ(html_text("<b>&\"'größe"), "&lt;b&gt;&amp;&quot;&#39;größe");
  EXPECT_EQ(html_text("a\n\x7F\xFF"), "a\\x0a\\x7f\\xff");
}

TEST(HtmlText, OmitsTheMiddleOfALongText) {
  const std::string text = html_text("begin" + std::string(1000, 'x') + "end", 100);
  EXPECT_TRUE(text.starts_with("beginx") && text.ends_with("xend")) << text;
  EXPECT_LE(text.size(), 130u);
}

/// RFC 4648, section 10.
TEST(HtmlText, EncodesBytesInBase64) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) EXPECT_EQ(base64(bytes), text);
  EXPECT_EQ(base64(std::string_view("\xFF\xFE\x00", 3)), "//4A");
}

}  // namespace
}  // namespace carillon
