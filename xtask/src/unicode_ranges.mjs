// Prints the ranges of code points that are not of type Graphic, one `first last category` a line.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const categories = ["Control", "Format", "Line_Separator", "Paragraph_Separator", "Private_Use", "Unassigned"];
for (const category of categories) {
  const path = require.resolve(`${process.argv[3]}/General_Category/${category}/ranges.mjs`);
  const { default: ranges } = await import(pathToFileURL(path));
  for (const { begin, end } of ranges) console.log(begin, end - 1, category);
}
