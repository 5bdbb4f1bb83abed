// The same figure in JupyterLab, as an anywidget: it moves without a kernel, and tells one what the reader did.
import * as own from "./own.js";
import { draw } from "./scene.js";

export default {
  render({ model, el }) {
    let figure;
    const guess = () => figure.guess(...model.get("guess"));
    const show = () => { // the first time, after measuring, and of another source
      figure?.remove();
      const [at, hidden, predicting] = ["at", "hidden", "predicting"].map((name) => model.get(name));
      figure = draw(el, structuredClone(model.get("scene")), { at, hidden, predicting, changed, measured, own });
      guess();
    };
    const changed = (kept) => {
      model.set(kept);
      model.save_changes();
    };
    const measured = (found) => changed({ yours: found });
    model.on("change:scene", show);
    model.on("change:guess", guess);
    model.on("change:at", () => figure.stand(model.get("at")));
    show();
    return () => figure.remove();
  },
};
