var yours=(()=>{var A=Object.defineProperty;var oe=Object.getOwnPropertyDescriptor;var re=Object.getOwnPropertyNames;var ne=Object.prototype.hasOwnProperty;var se=(e,t)=>{for(var o in t)A(e,o,{get:t[o],enumerable:!0})},ae=(e,t,o,r)=>{if(t&&typeof t=="object"||typeof t=="function")for(let n of re(t))!ne.call(e,n)&&n!==o&&A(e,n,{get:()=>t[n],enumerable:!(r=oe(t,n))||r.enumerable});return e};var ie=e=>ae(A({},"__esModule",{value:!0}),e);var Re={};se(Re,{SIZES:()=>Q,measure:()=>Ee});var R=`// Each invocation reads four elements of x, does its steps with them, and writes them to y. What stands in place of the line STEPS is
// written out step by step, so that no loop takes part of the time; none is a copy. The four are independent chains.
struct Numbers { a: vec4<f32>, b: vec4<f32> } // no constants: a compiler that knew them might write the steps in another way
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> by: Numbers;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.y * groups.x * 64u + id.x; // a second dimension where one cannot count all workgroups
  if (i >= arrayLength(&y)) { return; }
  var v = x[i];
  // STEPS
  y[i] = v;
}
`;var $=`// One thread adds 1 to a counter: so many dispatches ran as the counter says.
@group(0) @binding(2) var<storage, read_write> counter: array<f32>;

@compute @workgroup_size(1)
fn main() {
  counter[0] += 1.0;
}
`;var j=`// c = a b of n x n matrices, a result an invocation: each reads its row and its column by itself.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let n = u32(round(sqrt(f32(arrayLength(&c)))));
  if (max(id.x, id.y) >= n) { return; }
  var sum = 0.0;
  for (var k = 0u; k < n; k++) { sum += a[id.y * n + k] * b[k * n + id.x]; }
  c[id.y * n + id.x] = sum;
}
`;var D=`// c = a b of n x n matrices, 64 x 64 results a workgroup, 4 x 4 an invocation: what a workgroup reads into its own memory is used 64 times,
// what an invocation reads there 4 times. Beyond the edges stand zeros.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
var<workgroup> left: array<vec4<f32>, 272>; // at [k][row / 4]: of a, four rows' numbers; 17 apart, since neighbours at 16 would wait for one bank
var<workgroup> right: array<vec4<f32>, 256>; // at [k][column / 4]: of b, four columns'

fn of_a(n: u32, row: u32, k: u32) -> f32 { return select(0.0, a[row * n + k], max(row, k) < n); }
fn of_b(n: u32, k: u32, column: u32) -> f32 { return select(0.0, b[k * n + column], max(k, column) < n); }

fn store(n: u32, row: u32, column: u32, sums: vec4<f32>) {
  for (var j = 0u; j < 4u; j++) {
    if (max(row, column + j) < n) { c[row * n + column + j] = sums[j]; }
  }
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_id) me: vec3<u32>) {
  let n = u32(round(sqrt(f32(arrayLength(&c)))));
  let to = 64u * tile + 4u * me;
  var sums = mat4x4<f32>();
  for (var k = 0u; k < n; k += 16u) {
    let at = k + me; // neighbours read neighbours, of a too
    left[17u * me.x + me.y] = vec4<f32>(of_a(n, to.y, at.x), of_a(n, to.y + 1u, at.x), of_a(n, to.y + 2u, at.x), of_a(n, to.y + 3u, at.x));
    right[16u * me.y + me.x] = vec4<f32>(of_b(n, at.y, to.x), of_b(n, at.y, to.x + 1u), of_b(n, at.y, to.x + 2u), of_b(n, at.y, to.x + 3u));
    workgroupBarrier();
    for (var j = 0u; j < 16u; j++) {
      let down = left[17u * j + me.y];
      let across = right[16u * j + me.x];
      sums += mat4x4<f32>(down.x * across, down.y * across, down.z * across, down.w * across);
    }
    workgroupBarrier();
  }
  store(n, to.y, to.x, sums[0]);
  store(n, to.y + 1u, to.x, sums[1]);
  store(n, to.y + 2u, to.x, sums[2]);
  store(n, to.y + 3u, to.x, sums[3]);
}
`;var w=(...e)=>e.map(t=>2**t),Q={run_ahead:w(10,14,16,18,20,22,24),repeat:w(0,2,3,4,5,6,7,9),elements:w(16,20,24),fusion:w(10,14,18,20,22,24,26),matmul:w(6,7,8,9,10,11,12,13)},P={launch:2,repeat:8,copy:1,fusion:14,run_ahead:7,matmul:10},pe=.05,G=.5,de=100,he=.05,ge=2,S=1+1.5/128,V=1.25/128,x=20,ye=64,_=65521,we=["maxBufferSize","maxStorageBufferBindingSize","maxComputeWorkgroupsPerDimension"],le="WebGPU needs a secure page: open this one by https, from localhost or as a file.",ve="This browser has no WebGPU. Chrome and Edge have it from 113 on (on Linux from 144 on), Safari from 26 on, Firefox from 141 on, not on Linux.",xe="This browser has WebGPU but found no GPU for it; chrome://gpu or, in Firefox, about:support says why. A newer driver may help.",N="one call takes too long",k="no time was left",_e="it does not fit into the memory that a page may take";async function Ee({progress:e=()=>{},stopped:t=()=>!1,seconds:o=30,gpu:r=globalThis.navigator?.gpu,clock:n=performance,sizes:i={},rounds:s=7}={}){let u=()=>n.now()/1e3,a=()=>{f.hides+=document.hidden},c=new Map,f={now:u,stopped:t,rounds:s,end:u()+o,sizes:{...Q,...i},pipelines:c,rows:[],said:[],notes:{},hides:+document.hidden};await Pe(f,r),document.addEventListener("visibilitychange",a);try{await Se(f);for(let p in P)await Ae(f,p,e)}catch(p){await Promise.race([f.gone,K(100)]).catch(()=>{}),f.said.push((f.lost??p.message)+(f.rows.length?" What was measured until then is kept.":""))}return document.removeEventListener("visibilitychange",a),f.closing=!0,f.device.destroy(),Le(f)}var K=e=>new Promise(t=>setTimeout(t,e));async function Pe(e,t){if(!t)throw new Error(globalThis.isSecureContext===!1?le:ve);let o=await t.requestAdapter({powerPreference:"high-performance"});if(!o)throw new Error(xe);let r=Object.fromEntries(we.map(g=>[g,o.limits[g]])),n=o.features.has("timestamp-query"),i=e.device=await o.requestDevice({requiredFeatures:n?["timestamp-query"]:[],requiredLimits:r}),{vendor:s,architecture:u,description:a,device:c,isFallbackAdapter:f}=o.info,p=new Date().toISOString().slice(0,10),m=!!f||/swiftshader|llvmpipe|lavapipe|basic render|warp/i.test([s,u,a,c]),d=navigator.userAgent,[,h,y]=d.match(/(Edg|Firefox|Version)\/(\d+)/)??d.match(/(Chrome)\/(\d+)/)??["",d,""],v=`${{Edg:"Edge",Version:"Safari"}[h]??h} ${y}`;e.about={vendor:s,architecture:u,description:a||c,browser:v,date:p,software:m,limits:r},m&&e.said.push("A processor plays this GPU: its times show the shapes, not a GPU's speed."),e.gone=i.lost.then(({reason:g,message:U})=>{if(!e.closing)throw new Error(e.lost=`The GPU was lost (${[g,U].filter(Boolean).join(": ")}).`)}),e.gone.catch(()=>{}),i.addEventListener("uncapturederror",({error:g})=>{e.trouble??=` (${g.message})`}),n&&(e.stamps=i.createQuerySet({type:"timestamp",count:2}))}async function Se(e){let{device:t,sizes:o}=e,r="read-only-storage",n=[r,r,"storage","uniform"];e.bindings=t.createBindGroupLayout({entries:n.map((u,a)=>({binding:a,visibility:GPUShaderStage.COMPUTE,buffer:{type:u}}))}),e.layout=t.createPipelineLayout({bindGroupLayouts:[e.bindings]}),e.tick=ke(e.now),e.shortest=Math.min(G,Math.max(pe,de*e.tick));let i=(navigator.deviceMemory??4)*2**25,s=4*Math.max(...o.run_ahead,...o.fusion,...o.elements,...o.matmul.map(u=>u*u));for(e.bytes=4*Math.floor(Math.min(s,i,t.limits.maxBufferSize,t.limits.maxStorageBufferBindingSize)/4);!await Me(e);)e.bytes=16*Math.floor(e.bytes/32);e.drawn={x:W(e,e.x),r:W(e,e.r)},e.numbers=Z(t,Float32Array.from({length:8},(u,a)=>a<4?S:V),GPUBufferUsage.UNIFORM),e.elements=o.elements.filter(u=>4*u<=e.bytes).at(e.about.software?0:-1)}async function Me(e){let{device:t}=e,o=GPUBufferUsage.STORAGE|GPUBufferUsage.COPY_SRC|GPUBufferUsage.COPY_DST;t.pushErrorScope("out-of-memory");for(let n of"xryz")e[n]=t.createBuffer({size:e.bytes,usage:o});let r=await Promise.race([t.popErrorScope(),e.gone]);if(r)for(let n of"xryz")e[n].destroy();return!r}function W({device:e,bytes:t},o){let r=Float32Array.from({length:_},()=>2*Math.random()-1),n=Z(e,r,GPUBufferUsage.COPY_SRC);return l(e,i=>{for(let s=0;s<t;s+=4*_)i.copyBufferToBuffer(n,0,o,s,Math.min(4*_,t-s))}),i=>r[i%_]}function Z(e,t,o){let r=e.createBuffer({size:t.byteLength,usage:o|GPUBufferUsage.COPY_DST});return e.queue.writeBuffer(r,0,t),r}function l(e,t){let o=e.createCommandEncoder();t(o),e.queue.submit([o.finish()])}function ke(e){let t=[e()];for(let o;t.length<10;)(o=e())>t.at(-1)&&t.push(o);return Math.min(...t.slice(1).map((o,r)=>o-t[r]))}var q=e=>`v = fma(v, by.a, by.b);
`.repeat(e),I=e=>t=>t*S**e+V*(S**e-1)/(S-1),F=`v *= 1.75;
`,Y=`v += r[i];
`,H=`v = max(v, vec4<f32>());
`,Be=(e,t)=>Math.max(0,1.75*e+t),Ue={launch(e){let t=[z(e,$,"x","y",4,[1])],o={point:{},dispatches:t,size:1,result:"y",calls:100,at:()=>100,tolerance:0,flop:1,bytes:8};return[{...o,variant:"alone",waits:!0},{...o,variant:"among"}]},copy:(e,t)=>[E(e,t,"xy",[""],o=>o)],repeat(e,t){let{elements:o}=e,r={variant:"webgpu-fma",point:{repeat:t,elements:o,dtype:"float32"},flop:2*t*o,tolerance:4e-5};return[{...E(e,o,"xy",[q(t)],I(t)),...r}]},run_ahead:(e,t)=>[{...E(e,t,`x${"yz".repeat(x/2)}`,Array(x).fill(q(1)),I(x)),flop:2*x*t,passes:!0}],fusion(e,t){let o={point:{elements:t,dtype:"float32"},flop:3*t,bytes:12*t},r=(n,i,s)=>({...E(e,t,i,s,Be),...o,variant:n});return[r("webgpu-chain","xyzy",[F,Y,H]),r("webgpu-chain-fused","xy",[F+Y+H])]},matmul(e,t){let{x:o,r}=e.drawn,n=u=>Array.from({length:t},(a,c)=>o(u-u%t+c)*r(c*t+u%t)).reduce((a,c)=>a+c),i={point:{size:t},size:t*t,result:"y",at:n,tolerance:1e-4,flop:2*t**3,bytes:12*t*t,waits:!0},s=(u,a)=>z(e,u,"x","y",4*t*t,[Math.ceil(t/a),Math.ceil(t/a)]);return[{...i,variant:"webgpu-naive",dispatches:[s(j,16)]},{...i,variant:"webgpu",dispatches:[s(D,64)]}]}};function E(e,t,o,r,n){let i=Math.ceil(t/256),s=Math.ceil(i/e.device.limits.maxComputeWorkgroupsPerDimension),u=(p,m)=>z(e,R.replace("// STEPS",p),o[m],o[m+1],4*t,[Math.ceil(i/s),s]),a=r.map(u),c=p=>n(e.drawn.x(p),e.drawn.r(p)),f=8*t*r.length;return{variant:"webgpu",point:{elements:t},dispatches:a,size:t,result:o.at(-1),at:c,tolerance:1e-5,flop:0,bytes:f}}function z({device:e,pipelines:t,layout:o,bindings:r,...n},i,s,u,a,c){t.has(i)||t.set(i,e.createComputePipeline({layout:o,compute:{module:e.createShaderModule({code:i})}}));let f=[{buffer:n[s],size:a},{buffer:n.r,size:a},{buffer:n[u],size:a},{buffer:n.numbers}],p=e.createBindGroup({layout:r,entries:f.map((m,d)=>({binding:d,resource:m}))});return{pipeline:t.get(i),group:p,grid:c}}var O=({notes:e},t,o)=>(e[t]??=[]).push(o);async function Ae(e,t,o){let r=Object.keys(P),n=r.indexOf(t),i=r.slice(n).reduce((p,m)=>p+P[m],0),s=e.about.software?e.elements:4*Math.floor(e.bytes/16),u={launch:[1],copy:[s]}[t]??e.sizes[t];e.due=e.now()+(e.end-e.now())*P[t]/i;let a="",c=0,f;for(let[p,m]of u.entries()){let d=e.now();o({share:(n+p/u.length)/r.length,experiment:t,value:m}),4*(t==="matmul"?m*m:m)>e.bytes?a||=_e:p&&d+c>e.due&&(a||=k),a||([a,f]=await be(e,Ue[t](e,m).map(h=>({...h,experiment:t})),f)),a&&O(e,`${t} is left out, since ${a}, at`,m),c=e.now()-d}}async function be(e,t,o){let[{flop:r,bytes:n,waits:i}]=t,s=[],u=t.map(()=>[]);if(o&&o*(r+n)*(i?1:4)>G)return[N];for(let a of t)await Te(e,a)&&s.push(a);for(let a of s)if(!await ze(e,a))return[M(e)?k:N];for(;s.length&&u[0].length<e.rounds;){for(;document.hidden&&!M(e);)await Promise.race([K(50),e.gone]);if(M(e))return[k];let a=e.hides,c=[];for(let f of s)c.push(await X(e,f));a===e.hides&&c.forEach((f,p)=>u[p].push(f))}for(let[a,c]of s.entries())c.took=await Oe(e,c,u[a]);return["",s.length&&Math.max(...s.map(({took:a})=>a))/(r+n)]}var b=({times:e})=>(e.latency_s??e.period_s)[0];function M(e){if(e.stopped())throw new Error("The reader stopped it.");return e.now()>e.end}async function Te(e,t){let o=[0,t.size-1,...Array.from({length:ye},()=>Math.floor(t.size*Math.random()))],r=o.map(t.at);l(e.device,i=>i.clearBuffer(e[t.result])),L(e,t,t.calls??1);let n=await J(e,e[t.result],o);return t.error=Math.hypot(...r.map((i,s)=>n[s]-i))/Math.hypot(...r),t.error<=t.tolerance?!0:(e.said.push(`${C(t)} is wrong by ${t.error.toPrecision(2)} and left out${e.trouble??""}.`),!1)}var C=({experiment:e,variant:t,point:{dtype:o,...r}})=>[e,t,...Object.entries(r).flat()].join(" "),B=e=>`${e.toExponential(1)} s`;async function J({device:e,gone:t},o,r){let n=e.createBuffer({size:4*r.length,usage:GPUBufferUsage.MAP_READ|GPUBufferUsage.COPY_DST});return l(e,i=>r.forEach((s,u)=>i.copyBufferToBuffer(o,4*s,n,4*u,4))),await Promise.race([n.mapAsync(GPUMapMode.READ),t]),new Float32Array(n.getMappedRange())}function L({device:e},{dispatches:t,passes:o},r,n){let i=Array(r).fill(t);for(let s of o?i:[i.flat()])l(e,u=>{let a=u.beginComputePass({timestampWrites:n});for(let{pipeline:c,group:f,grid:p}of s)a.setPipeline(c),a.setBindGroup(0,f),a.dispatchWorkgroups(...p);a.end()})}async function T(e,t,o){let r=e.now();L(e,t,o);let n=e.now()-r;return await Promise.race([e.device.queue.onSubmittedWorkDone(),e.gone]),[n,e.now()-r]}async function X(e,t){let{count:o,waits:r}=t,n=[0,0];for(let a=0;r&&a<o;a++)(await T(e,t,1)).forEach((c,f)=>{n[f]+=c});if(r)return[n[0]/o,n[1]/o,n[1]];let[i,s]=await T(e,t,o),u=await T(e,t,o/4);return[i/o,(s-u[1])/(.75*o),s]}async function ze(e,t){let o=t.count=t.waits?1:4,r=e.shortest*(t.waits?.4:1),n=e.now()+Math.min(ge,(e.due-e.now())/8);for(let i=0;!M(e);){let[,s,u]=await X(e,t),a=1.15*r/Math.max(u,e.tick);if(u>G&&t.count===o)return!1;if(u<r)t.count=o*Math.ceil(t.count/o*Math.min(16,Math.max(1.5,a)));else if(Math.abs(s-i)<=he*s||e.now()>n)return!0;i=s}return!1}function Ge(e,t){let o=[...e].sort((i,s)=>i-s),r=(o.length-1)/2,n=(o[Math.floor(r)]+o[Math.ceil(r)])/2;return[n,Math.max(0,Math.min(o[0],n-t)),Math.max(o.at(-1),n+t),o.length]}async function Oe(e,t,o){let{experiment:r,variant:n,point:i,flop:s,bytes:u,error:a,waits:c,passes:f,count:p}=t,m=e.tick/(c?Math.sqrt(p):.75*p),[d,h]=[0,1].map(ee=>Ge(o.map(te=>te[ee]),m)),[y,v,g]=h;g>2*v&&O(e,y>0?"Noisy by more than a factor of two:":"Too noisy to be kept:",`${C(t)} (${B(v)} to ${B(g)})`);let U={...(c||f)&&{host_s:d},[c?"latency_s":"period_s"]:h};return y>0&&e.rows.push({experiment:r,variant:n,point:i,times:U,flop:s,bytes:u,error:a}),y>0&&e.stamps&&!c&&!f&&await Ce(e,t,y),y}async function Ce(e,t,o){let{device:r,stamps:n}=e,i=r.createBuffer({size:16,usage:GPUBufferUsage.QUERY_RESOLVE|GPUBufferUsage.COPY_SRC});L(e,t,t.count,{querySet:n,beginningOfPassWriteIndex:0,endOfPassWriteIndex:1}),l(r,f=>f.resolveQuerySet(n,0,2,i,0));let{buffer:s}=await J(e,i,[0,1,2,3]),[u,a]=new BigUint64Array(s),c=Number(a-u)/1e9/t.count;c<=2*o&&o<=2*c||O(e,"Time stamps differ twofold or more:",`${C(t)} (${B(c)}, not ${B(o)})`)}function Le({rows:e,said:t,notes:o,hides:r,about:n,tick:i}){if(!e.length)throw new Error(t.at(-1)??`Nothing was measured: ${k}.`);t.push(...Object.entries(o).map(([m,d])=>`${m} ${d.join(", ")}.`)),r&&t.push("The tab was hidden meanwhile: what was timed then was thrown away, and repeated while there was time.");let s=m=>e.filter(({experiment:d})=>d===m),u=(m,d)=>m&&m[d]/b(m),a=Object.fromEntries(s("launch").map(({variant:m,times:d})=>[m,d.latency_s??d.period_s])),c={bytes_per_s:u(s("copy")[0],"bytes"),flop_per_s:u(s("repeat").at(-1),"flop")},f=m=>s("matmul").filter(({point:d})=>d.size===m.point.size).reduce((d,h)=>b(h)<b(d)?h:d),p=s("matmul").map(m=>m.variant==="webgpu"?{...f(m),variant:"webgpu"}:m);return{device:{...n,tick_s:i},said:t,rows:[...["repeat","fusion","run_ahead"].flatMap(s),...p],launch:a,peaks:c}}return ie(Re);})();
