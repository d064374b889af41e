#include "carillon/data/record_form.h"

#include <utility>

namespace carillon {

std::unique_ptr<RecordDecoder> RecordForm::decoder(const RecordKeys& keys, RecordUse use) const {
  RecordSchema replaced = schema;
  if (!keys.image.empty()) replaced.keys.image = keys.image;
  if (!keys.target.empty()) replaced.keys.label = keys.target;
  return make_decoder(std::move(replaced), use);
}

std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse /*use*/) {
  return make_grey_decoder(std::move(schema));
}

std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse /*use*/) {
  return make_planar_decoder(std::move(schema));
}

}  // namespace carillon
