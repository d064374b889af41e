#include "carillon/data/record_form.h"

namespace carillon {

std::unique_ptr<RecordDecoder> grey_records(RecordSchema schema, RecordUse /*use*/) {
  return make_grey_decoder(std::move(schema));
}

std::unique_ptr<RecordDecoder> planar_records(RecordSchema schema, RecordUse /*use*/) {
  return make_planar_decoder(std::move(schema));
}

}  // namespace carillon
